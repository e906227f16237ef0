package notify

import (
	"bytes"
	"encoding/json"
	"fmt"

	"keyfold/engine"
)

// MaxAttributesBytes bounds what is kept of a user for rules.
const MaxAttributesBytes = 2 << 10

// Attributes are what a shop says of a user for its rules, such as a plan and segments: a
// JSON object, read as an event's metadata is. The zero value has none.
type Attributes struct {
	text   string
	Values Metadata
}

// IsZero reports whether there are none.
func (a Attributes) IsZero() bool { return a.text == "" }

// Len returns how many bytes the object has.
func (a Attributes) Len() int { return len(a.text) }

// MarshalJSON returns the object.
func (a Attributes) MarshalJSON() ([]byte, error) {
	if a.text == "" {
		return []byte("null"), nil
	}
	return []byte(a.text), nil
}

// UnmarshalJSON reads an object of at most [MaxAttributesBytes].
func (a *Attributes) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		*a = Attributes{}
		return nil
	}
	// Preferences are stored as [json.Marshal] writes them: what is more by that does not count.
	if b = plain(b); len(b) > MaxAttributesBytes {
		return fmt.Errorf("found %d bytes, expected at most %d", len(b), MaxAttributesBytes)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return err
	}
	values, err := readAttributes(compact.Bytes())
	if err != nil {
		return err
	}
	*a = Attributes{text: compact.String(), Values: values}
	return nil
}

// escapes are those that [json.Marshal] writes for characters which need none.
var escapes = map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&", `\u2028`: "\u2028", `\u2029`: "\u2029"}

// plain returns a JSON text without these escapes.
func plain(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\u`)) {
		return b
	}
	made := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		size := 1
		if b[i] == '\\' {
			if character, ok := escapes[string(bytes.ToLower(b[i:min(i+6, len(b))]))]; ok {
				made, i = append(made, character...), i+6
				continue
			}
			size = min(2, len(b)-i) // what follows a backslash begins no escape
		}
		made, i = append(made, b[i:i+size]...), i+size
	}
	return made
}

// readAttributes reads an object as the metadata of an event is read, by the same rules.
func readAttributes(text []byte) (Metadata, error) {
	p := parser{}
	p.fields[fieldMetadata] = engine.Value{Text: text}
	if kindOf(text) != Object {
		return nil, fmt.Errorf("found %.60s, expected an object such as {\"plan\":\"pro\",\"segments\":[\"vip\"]}", text)
	}
	p.storable(fieldMetadata.String(), "attributes", p.fields[fieldMetadata])
	values := p.metadata()
	return values, p.faults.err()
}
