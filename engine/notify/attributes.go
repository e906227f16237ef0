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
	if len(b) > MaxAttributesBytes {
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
