package ruleset

import (
	"bytes"
	"encoding/json"
)

// Shown is a set with its rules.
type Shown struct {
	Listed
	Each []ShownRule
}

// ShownRule is a rule as it is written.
type ShownRule struct {
	ID          string          `json:"rule_id"`
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Description string          `json:"description"`
	Priority    int             `json:"priority"`
	Enabled     bool            `json:"enabled"`
	Conditions  json.RawMessage `json:"conditions"`
	Action      json.RawMessage `json:"action"`
}

// ShownOf reads the rules of a document, in the order in which they are written.
func ShownOf(listed Listed, text []byte) *Shown {
	var document struct {
		Rules []ShownRule `json:"rules"`
	}
	_ = json.Unmarshal(text, &document) // what a later version has written otherwise is left out
	for i := range document.Rules {
		r := &document.Rules[i]
		r.Conditions, r.Action = compact(r.Conditions), compact(r.Action)
	}
	return &Shown{Listed: listed, Each: document.Rules}
}

func compact(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}
