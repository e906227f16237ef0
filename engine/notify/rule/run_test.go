package rule

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
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

func TestCasesTestTheTextsOfDigests(t *testing.T) {
	const document = `{"version": "1", "rules": [],
		"policy": {
			"topics": [{"name": "offers", "title": "Offers"}],
			"digests": {"show": 2, "title": "{{.Count}} news", "message": "{{range .Items}}{{.Title}} {{metadata . \"n\"}} ({{.Type}})\n{{end}}{{.More}} more"}},
		"tests": [
			{"name": "right", "digest": {"key": "x", "events": [{"title": "A", "metadata": {"n": 7}}, {"title": "B", "event_type": "PROMO"}, {}],
				"expect": {"title": "3 news", "message": "A 7 (SYSTEM)\nB  (PROMO)\n1 more", "more": 1}}},
			{"name": "wrong", "digest": {"key": "x", "events": [{"title": "A"}], "expect": {"title": "2 news", "message": "B", "more": 1}}},
			{"name": "only more", "digest": {"key": "x", "events": [{}, {}, {}, {}], "expect": {"more": 2}}}
		]}`
	d, faults := Read([]byte(document))
	if d == nil {
		t.Fatal(faults.Err())
	}
	failures := d.Test()
	if len(failures) != 1 || failures[0].Case != "wrong" {
		t.Fatalf("found %+v", failures)
	}
	const want = `title: found "1 news", expected "2 news"; message: found "A  (SYSTEM)\n0 more", expected "B"; more: found 0, expected 1`
	if failures[0].Text != want {
		t.Errorf("found    %s\nexpected %s", failures[0].Text, want)
	}
}

func TestCasesSayWhereANowGoes(t *testing.T) {
	c := Case{outcome: notify.Now, reasons: []string{"A"}, channels: []notify.Channel{notify.InApp}}
	c.follows = &[]followCase{{channels: []notify.Channel{notify.Push}, at: c.now + 60_000}, {channels: []notify.Channel{notify.SMS}, digest: "offers"}}
	record := &notify.Record{Outcome: notify.Now, Reasons: []string{"A"}, Channels: []notify.Channel{notify.InApp}}
	record.Facts.FollowUps = []notify.FollowUp{
		{Channels: []notify.Channel{notify.Push}, At: 60_000, Digest: "x"},
		{Channels: []notify.Channel{notify.SMS}, At: 5, Digest: "offers"},
	}
	if found := c.differences(record, nil); found != "" {
		t.Errorf("the same differ: %s", found)
	}
	record.Channels, record.Facts.FollowUps = []notify.Channel{notify.Push}, record.Facts.FollowUps[:1]
	record.Facts.FollowUps[0].At++
	const want = "channels: found push, expected in_app; follow_ups: found push at 1970-01-01T00:01:00.001Z, " +
		"expected push at 1970-01-01T00:01:00Z, sms in the digest offers"
	if found := c.differences(record, nil); found != want {
		t.Errorf("found    %s\nexpected %s", found, want)
	}
	record.Facts.FollowUps = nil
	c.channels, c.follows = nil, &[]followCase{}
	if found := c.differences(record, nil); found != "" {
		t.Errorf("none are expected and found: %s", found)
	}
	c.follows = nil
	if found := c.differences(record, nil); found != "" {
		t.Errorf("nothing is compared: %s", found)
	}
}

// TestCasesHaveAllPreferences holds that a case's preferences are read as a user's are.
func TestCasesHaveAllPreferences(t *testing.T) {
	const prefs = `{"zone": "Europe/Berlin", "quiet": [{"from": "22:00", "to": "07:00"}], "muted": ["PROMO"], "channels": ["push"],
		"topics": {"offers": {"channels": {"push": "off", "email": "digest"}, "muted_until": "2026-11-24T08:00:00Z"}},
		"digests": ["08:00", "18:00"], "attributes": {"plan": "pro", "segments": ["vip"]}, "paused": true,
		"muted_until": "2026-11-24T08:00:00Z", "snoozed_until": "2026-11-24T09:00:00Z"}`
	d, faults := Read([]byte(`{"version": "1", "rules": [], "policy": {"topics": [{"name": "offers", "title": "Offers"}]},
		"tests": [{"name": "a", "event": {}, "outcome": "NEVER", "reasons": ["PAUSED"], "prefs": ` + prefs + `}]}`))
	if d == nil {
		t.Fatal(faults.Err())
	}
	var want notify.Preferences
	must.OK(t, json.Unmarshal([]byte(prefs), &want))
	if found := d.Cases[0].prefs; !reflect.DeepEqual(found, want) {
		t.Errorf("found    %+v\nexpected %+v", found, want)
	}
}

func TestCasesThatFailSayWhatDiffers(t *testing.T) {
	var document map[string]any
	must.OK(t, json.Unmarshal(documentOf(t, ruleOf(1, 1, leaf("source", "eq", "test"), "LATER")), &document))
	document["tests"] = []any{
		object{
			"name": "right", "event": object{"event_type": "ALERT"}, "outcome": "LATER", "reasons": []string{"R_X"}, "rule": "rule B",
			"defer_until": "2026-11-23T13:00:00Z",
		},
		object{"name": "wrong", "event": object{}, "outcome": "NOW", "reasons": []string{"SCORE_HIGH"}, "defer_until": "2026-11-23T14:00:00Z"},
		object{"name": "spent", "event": object{"priority_hint": "HIGH"}, "turn": 1, "spent": []string{"rule B"}, "outcome": "LATER", "reasons": []string{"R_X"}},
	}
	text, err := json.Marshal(document)
	must.OK(t, err)
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
