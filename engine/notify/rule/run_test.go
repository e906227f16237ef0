package rule

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheShippedSetPassesItsCases(t *testing.T) {
	d, faults := Read(Default())
	if d == nil {
		t.Fatal(faults.Err())
	}
	for _, failure := range d.Test() {
		t.Errorf("%s %q: %s", failure.Path, failure.Case, failure.Text)
	}
}

// TestEachShippedRuleHasACase holds that a case fails where a rule is removed.
func TestEachShippedRuleHasACase(t *testing.T) {
	d, _ := Read(Default())
	for i := range d.Rules {
		if !d.Rules[i].Enabled {
			continue
		}
		d.Rules[i].Enabled = false
		if len(d.Test()) == 0 {
			t.Errorf("without the rule %q no case fails", d.Rules[i].Name)
		}
		d.Rules[i].Enabled = true
	}
}

func TestCasesThatFailSayWhatDiffers(t *testing.T) {
	var document map[string]any
	if err := json.Unmarshal(documentOf(t, ruleOf(1, 1, leaf("source", "eq", "test"), "LATER")), &document); err != nil {
		t.Fatal(err)
	}
	document["tests"] = []any{
		object{
			"name": "right", "event": object{"event_type": "ALERT"}, "outcome": "LATER", "reasons": []string{"R_X"}, "rule": "rule B",
			"defer_until": "2026-11-23T13:00:00Z",
		},
		object{"name": "wrong", "event": object{}, "outcome": "NOW", "reasons": []string{"SCORE_HIGH"}, "defer_until": "2026-11-23T14:00:00Z"},
		object{"name": "spent", "event": object{"priority_hint": "HIGH"}, "turn": 1, "spent": []string{"rule B"}, "outcome": "LATER", "reasons": []string{"R_X"}},
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	d, faults := Read(text)
	if d == nil {
		t.Fatal(faults.Err())
	}
	failures := d.Test()
	if len(failures) != 2 || failures[0].Case != "wrong" || failures[0].Path != "$.tests[1]" || failures[1].Case != "spent" {
		t.Fatalf("found %+v", failures)
	}
	want := "outcome: found LATER, expected NOW; reasons: found [R_X], expected [SCORE_HIGH]; rule: found rule B, expected none; " +
		"defer_until: found 2026-11-23T13:00:00Z, expected 2026-11-23T14:00:00Z"
	if failures[0].Text != want {
		t.Errorf("found    %s\nexpected %s", failures[0].Text, want)
	}
	if !strings.Contains(failures[1].Text, "outcome: found NOW, expected LATER") {
		t.Errorf("a spent rule matched: %s", failures[1].Text)
	}
}
