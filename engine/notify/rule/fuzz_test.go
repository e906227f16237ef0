package rule

import (
	"os"
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
)

// FuzzDocuments holds that a text is either refused with a fault, each of which has its
// place, or makes a set that matches without a panic.
func FuzzDocuments(f *testing.F) {
	f.Add(Default())
	bad, err := os.ReadFile("testdata/faults.json")
	must.OK(f, err)
	f.Add(bad)
	f.Add([]byte(`{"version": "1", "rules": [{"rule_id": "6b657966-6f6c-4d00-8000-000000000001", "name": "a", "priority": 1, "version": "1.0.0",
		"conditions": {"op": "NOT", "rules": [{"op": "OR", "rules": [{"field": "metadata.n", "operator": "lte", "value": 1e3}]}]},
		"action": {"outcome": "LATER", "defer_strategy": "digest_window", "digest_key": ["metadata.n"], "reason_code": "AB"}}]}`))
	f.Add([]byte(`{"version": "1", "policy": {"limits": [{"name": "a", "key": ["metadata.n"], "most": 1, "within": "1h"}],
		"topics": [{"name": "t", "title": "T"}], "digests": {"keys": {"t": {"message": "{{range .Items}}{{cut 9 .Title}}{{end}}."}}}},
		"rules": [{"rule_id": "6b657966-6f6c-4d00-8000-000000000001", "name": "a", "priority": 1, "version": "1.0.0",
		"conditions": {"op": "AND", "rules": [{"always": true}, {"field": "user.since", "operator": "before", "value": "2026-12-24"},
			{"field": "user_id", "operator": "percent", "value": 12.5}, {"field": "metadata.tags", "operator": "contains", "value": "x"}]},
		"action": {"outcome": "NOW", "escalate": [{"after": "1h", "channels": ["sms"]}], "reason_code": "AB"}}],
		"tests": [{"name": "d", "digest": {"key": "t", "events": [{}], "expect": {"more": 0}}},
			{"name": "p", "event": {}, "outcome": "NOW", "reasons": [], "prefs": {"topics": {"t": {"channels": {"push": "off"}}}, "digests": ["18:00"]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, faults := Read(text)
		if (d == nil) != (faults.Err() != nil) {
			t.Fatalf("document %v, faults %v", d, faults)
		}
		for _, fault := range faults {
			if fault.Path == "" || fault.Text == "" || fault.Line < 1 {
				t.Fatalf("a fault without its place: %+v", fault)
			}
		}
		if d == nil {
			return
		}
		p := Compile(d, notify.Local{}).Rules.(*Program)
		in := promo()
		for _, in.Event.Type = range notify.EventTypes {
			p.Match(in, nil)
			p.Near(in)
		}
		d.Test()
	})
}
