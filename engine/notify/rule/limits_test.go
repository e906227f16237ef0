package rule

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"keyfold/engine/notify"
)

// policyOf reads a document with a policy.
func policyOf(t *testing.T, policy string) *notify.Policy {
	d, faults := Read([]byte(`{"version": "1", "rules": [], "policy": ` + policy + `}`))
	if d == nil {
		t.Fatalf("%s: %v", policy, faults.Err())
	}
	if len(faults) > 0 {
		t.Errorf("%s: %s", policy, faults[0])
	}
	return &d.Policy
}

func TestLimitsTopicsChannelsAndDigestsAreRead(t *testing.T) {
	p := policyOf(t, `{
		"limits": [
			{"name": "offers", "types": ["PROMO", "DIGEST"], "sources": ["shop"], "channels": ["push", "sms"], "most": 2, "within": "24h"},
			{"name": "order-1", "key": ["metadata.order_id", "source"], "most": 250, "within": "168h"}
		],
		"topics": [
			{"name": "offers", "title": "Offers", "types": ["PROMO"], "sources": ["shop"]},
			{"name": "security", "title": "Security", "types": ["SECURITY"], "locked": true},
			{"name": "all", "title": "All the rest"}
		],
		"channels": {"in_app": {"quiet_hours": false}, "push": {"quiet_hours": true}, "email": null},
		"types": {"ALERT": {"other_channels": "later", "when_capped": "digest"}, "PROMO": {"other_channels": "never", "when_capped": "slot"}}
	}`)
	offers := notify.Limit{
		Name: "offers", Most: 2, Within: 86_400_000,
		Of: notify.Selector{Types: []notify.EventType{notify.Promo, notify.Digest}, Sources: []string{"shop"}, Channels: []notify.Channel{notify.Push, notify.SMS}},
	}
	order := notify.Limit{Name: "order-1", Key: []string{"metadata.order_id", "source"}, Most: 250, Within: 7 * 86_400_000}
	prepared := notify.Policy{Limits: []notify.Limit{offers, order}}
	prepared.Prepare()
	if want := prepared.Limits; !reflect.DeepEqual(p.Limits, want) {
		t.Errorf("limits: found %+v, expected %+v", p.Limits, want)
	}
	if want := []notify.Topic{
		{Name: "offers", Title: "Offers", Of: notify.Selector{Types: []notify.EventType{notify.Promo}, Sources: []string{"shop"}}},
		{Name: "security", Title: "Security", Of: notify.Selector{Types: []notify.EventType{notify.Security}}, Locked: true},
		{Name: "all", Title: "All the rest"},
	}; !reflect.DeepEqual(p.Topics, want) {
		t.Errorf("topics: found %+v, expected %+v", p.Topics, want)
	}
	if p.Awake != notify.SetOf([]notify.Channel{notify.InApp}) {
		t.Errorf("awake channels: %b", p.Awake)
	}
	if a, b := p.Types[notify.Alert], p.Types[notify.Promo]; !a.OthersLater || !a.CappedToDigest || b.OthersLater || b.CappedToDigest {
		t.Errorf("ALERT %+v, PROMO %+v", a, b)
	}
}

// TestASetThatNamesNoLimitsHasNone holds that a published set from before there were limits
// decides as it did: the shipped set's are not its defaults.
func TestASetThatNamesNoLimitsHasNone(t *testing.T) {
	for _, policy := range []string{`{}`, `null`, `{"types": {"PROMO": {"cooldown": "1h"}}, "limits": null}`, `{"limits": [], "topics": [], "channels": {}}`} {
		p := policyOf(t, policy)
		if len(p.Limits)+len(p.Topics)+len(p.Digests) > 0 || p.Awake != 0 {
			t.Errorf("%s: found %+v", policy, p)
		}
		for _, kind := range notify.EventTypes {
			if p.Types[kind].OthersLater || p.Types[kind].CappedToDigest {
				t.Errorf("%s: %s has %+v", policy, kind, p.Types[kind])
			}
		}
	}
}

func TestTextsOfADigestsKeyAreOverThoseOfTheOthers(t *testing.T) {
	p := policyOf(t, `{"digests": {"show": 10, "title": "{{.Count}} news", "message": "all", "keys": {"offers": {"title": "Offers"}, "UPDATE": {"show": 3}}}}`)
	found := ""
	for _, key := range []string{"", "other", "offers", "UPDATE"} {
		d := p.DigestPolicyOf(key)
		found += fmt.Sprintf("%q %d %s %s\n", key, d.Show, d.Title.Text, d.Message.Text)
	}
	want := "\"\" 10 {{.Count}} news all\n\"other\" 10 {{.Count}} news all\n\"offers\" 10 Offers all\n\"UPDATE\" 3 {{.Count}} news all\n"
	if found != want {
		t.Errorf("found\n%sexpected\n%s", found, want)
	}
	if d := policyOf(t, `{"digests": {}}`).DigestPolicyOf("x"); d != (notify.DigestPolicy{}) {
		t.Errorf("without texts: %+v", d)
	}
}

// Each bound of limits and topics is exact.
func TestBoundsOfLimits(t *testing.T) {
	many := func(name, one string, n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(one, i)
		}
		return `{"` + name + `": [` + strings.Join(all, ",") + `]}`
	}
	limit := func(rest string) string {
		return `{"limits": [{"name": "a", "types": ["PROMO"], "most": 1, "within": "1h"` + rest + `}]}`
	}
	const one, topic = `{"name": "n%d", "types": ["PROMO"], "most": 1, "within": "1s"}`, `{"name": "n%d", "title": "T", "sources": ["s%[1]d"]}`
	for _, test := range []struct{ policy, want string }{
		{many("limits", one, notify.MaxLimits), ""},
		{many("limits", one, notify.MaxLimits+1), "found 33 limits, expected at most 32"},
		{many("topics", topic, notify.MaxTopics), ""},
		{many("topics", topic, notify.MaxTopics+1), "found 65 topics, expected at most 64"},
		{many("limits", `{"name": "n%d", "key": ["metadata.k%[1]d"], "most": 1, "within": "1s"}`, notify.MaxKeys), ""},
		{many("limits", `{"name": "n%d", "key": ["metadata.k%[1]d"], "most": 1, "within": "1s"}`, notify.MaxKeys+1), "found 3 different keys"},
		{many("limits", `{"name": "n%d", "key": ["metadata.k"], "most": 1, "within": "1s"}`, 9), ""},
		{`{"limits": [{"name": "a", "types": ["PROMO", "SECURITY"], "most": 1, "within": "1s"}]}`, "limits[0].types: warning: this limit can hold SECURITY"},
		{limit(`, "key": ["source", "title", "message", "dedupe_key"]`), ""},
		{limit(`, "sources": ["` + strings.Repeat("ü", 64) + `"]`), ""},
		{limit(`, "sources": ["` + strings.Repeat("ü", 65) + `"]`), "found 65 characters"},
		{`{"limits": [{"name": "` + strings.Repeat("a", 64) + `", "types": ["PROMO"], "most": 1, "within": "1s"}]}`, ""},
		{`{"limits": [{"name": "` + strings.Repeat("a", 65) + `", "types": ["PROMO"], "most": 1, "within": "1s"}]}`, "malformed name"},
		{`{"topics": [{"name": "a", "title": "A", "types": ["PROMO", "ALERT"]}, {"name": "b", "title": "B", "types": ["ALERT"], "sources": ["x"]}]}`, "warning: no event has the topic b"},
		{`{"topics": [{"name": "a", "title": "A", "types": ["ALERT"], "sources": ["x"]}, {"name": "b", "title": "B", "types": ["ALERT"]}]}`, ""},
	} {
		found := faultsOf([]byte(`{"version": "1", "rules": [], "policy": ` + test.policy + `}`))
		if test.want == "" && found != "" || !strings.Contains(found, test.want) {
			t.Errorf("%.200s: found %q, expected %q", test.policy, found, test.want)
		}
	}
}
