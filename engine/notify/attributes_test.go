package notify

import (
	"encoding/json"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// Attributes at their limit can be read back: preferences are stored as [json.Marshal]
// writes them, which escapes some characters.
func TestAttributesAtTheirLimitAreReadBack(t *testing.T) {
	for _, text := range []string{"<b>&", "\u2028\u2029", `\\u003c`, `\"`, "ä", `\u003c`} {
		n := (MaxAttributesBytes - len(`{"a":""}`)) / len(text)
		given := `{"a":"` + strings.Repeat(text, n) + `"}`
		var own, read Preferences
		must.OK(t, json.Unmarshal([]byte(`{"attributes":`+given+`}`), &own))
		stored, err := json.Marshal(own)
		must.OK(t, err)
		if err := json.Unmarshal(stored, &read); err != nil {
			t.Errorf("attributes of %q cannot be read back: %v", text, err)
			continue
		}
		var want, got struct {
			Attributes struct{ A string }
		}
		again, _ := json.Marshal(read)
		_ = json.Unmarshal([]byte(`{"attributes":`+given+`}`), &want)
		_ = json.Unmarshal(again, &got)
		if got != want || read.Attributes.text != own.Attributes.text || read.Attributes.Values.Get("a").Text != want.Attributes.A {
			t.Errorf("attributes of %q were read back as %.80s", text, again)
		}
	}
	var own Preferences
	if err := json.Unmarshal([]byte(`{"attributes":{"a":"`+strings.Repeat("x", MaxAttributesBytes)+`"}}`), &own); err == nil {
		t.Error("attributes over the limit were taken")
	}
}
