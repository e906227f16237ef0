package rule

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"keyfold/engine"
)

// Fault is one fault of a document.
type Fault struct {
	Rule    string `json:"rule,omitzero"`    // its name, "rules[3]" without one, "" outside of the rules
	Path    string `json:"path"`             // JSONPath, such as $.rules[3].action.outcome
	Line    int    `json:"line,omitzero"`    // of the text, from 1; 0: of no text
	Text    string `json:"text"`             // what is wrong and the cure
	Warning bool   `json:"warning,omitzero"` // the document can be used as it is

	at int // offset in the text
}

// String returns the fault in one line.
func (f Fault) String() string {
	subject := ""
	if f.Warning {
		subject = "warning: "
	}
	if f.Rule != "" && !strings.HasPrefix(f.Rule, "rules[") { // which the path says
		subject += fmt.Sprintf("rule %q: ", f.Rule)
	}
	if f.Line > 0 {
		return fmt.Sprintf("line %d, %s: %s%s", f.Line, f.Path, subject, f.Text)
	}
	return fmt.Sprintf("%s: %s%s", f.Path, subject, f.Text)
}

// Faults are the faults of a document, in the order of its text.
type Faults []Fault

// Err returns the faults that are no warnings as one error, nil without any.
func (f Faults) Err() error {
	var all []error
	for _, fault := range f {
		if !fault.Warning {
			all = append(all, errors.New(fault.String()))
		}
	}
	return errors.Join(all...)
}

// locate puts the faults into the order of the text and fills their lines.
func (f Faults) locate(text []byte) {
	slices.SortStableFunc(f, func(a, b Fault) int { return cmp.Compare(a.at, b.at) })
	line, from := 1, 0
	for i := range f {
		line += bytes.Count(text[from:f[i].at], []byte{'\n'})
		from, f[i].Line = f[i].at, line
	}
}

// hint names the word that an unknown one resembles, else the known ones.
func hint(name string, known []string) string {
	best, fewest := "", 3
	for _, k := range known {
		if n := engine.Edits(strings.ToLower(name), strings.ToLower(k), fewest-1); n < fewest && n < (len(k)+1)/2 {
			best, fewest = k, n
		}
	}
	if best == "" {
		best = synonyms[strings.ToLower(name)]
	}
	if slices.Contains(known, best) {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "there is none"
	}
	return "use one of " + strings.Join(known, ", ")
}

// synonyms are words of other rule languages.
var synonyms = map[string]string{
	"=": "eq", "==": "eq", "equals": "eq", "!=": "neq", "<>": "neq", "not_equals": "neq", "ne": "neq",
	">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "nin": "not_in", "one_of": "in",
	"starts_with": "prefix", "startswith": "prefix", "begins_with": "prefix", "has": "contains", "includes": "contains", "like": "contains",
	"rollout": "percent", "sample": "percent", "rate_limits": "limits", "categories": "topics", "escalation": "escalate",
	"all": "AND", "any": "OR", "type": "event_type", "priority": "priority_hint", "channels": "channel",
	"user": "user_id", "hour": "local_hour", "weekday": "local_weekday", "age": "age_s",
	"send": "NOW", "allow": "NOW", "defer": "LATER", "delay": "LATER", "drop": "NEVER", "block": "NEVER", "suppress": "NEVER",
	"id": "rule_id", "when": "conditions", "then": "action", "reason": "reason_code", "strategy": "defer_strategy", "channel": "channel_override",
}
