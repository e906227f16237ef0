package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

// Failure is a case of which the decision is another than it expects.
type Failure struct {
	Case string `json:"case"`
	Path string `json:"path"` // JSONPath of the case
	Text string `json:"text"` // each difference: found, expected
}

// Test decides the document's cases and returns those that fail. Users without a zone
// of their own are in UTC, with mornings at 08:00 and digests at 09:00 and 18:00.
func (d *Document) Test() (failures []Failure) {
	zone, err := quiet.LoadZone("UTC")
	if err != nil {
		return []Failure{{Path: "$.tests", Text: err.Error()}}
	}
	set := Compile(d, notify.Local{Zone: zone, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}})
	for i := range d.Cases {
		c := &d.Cases[i]
		if text := c.test(set, d.Rules); text != "" {
			failures = append(failures, Failure{c.Name, c.path, text})
		}
	}
	return failures
}

// test says what is not as the case expects.
func (c *Case) test(set *notify.Set, rules []Rule) string {
	if c.digest != nil {
		return c.digest.differences(&set.Policy)
	}
	return c.differences(c.decide(set), rules)
}

func (c *Case) decide(set *notify.Set) *notify.Record {
	state := &notify.State{Erased: c.erased}
	for _, e := range c.sent {
		state.Fold(&notify.Record{
			EventID: e.event.ID, UserID: e.event.UserID, Type: e.event.Type, Source: e.event.Source, Print: set.Policy.Print(e.event),
			Outcome: notify.Now, DecidedAt: e.at, Channels: e.event.Channels,
			Facts: notify.Facts{Horizon: set.Policy.Horizon(), Sent: set.Policy.SentOf(e.event, e.event.Channels)},
		})
	}
	event := *c.event // another set may have another fingerprint
	event.Print = set.Policy.Print(&event)
	record := notify.Decide(set, &c.prefs, state, &event, notify.Turn{Number: c.turn, Spent: c.spent}, c.score, c.now)
	return &record
}

// differences says what of a record is not as expected.
func (c *Case) differences(record *notify.Record, rules []Rule) (text string) {
	compare := func(what, found, expected string) {
		if found != expected {
			text += fmt.Sprintf("; %s: found %s, expected %s", what, found, expected)
		}
	}
	compare("outcome", record.Outcome.String(), c.outcome.String())
	compare("reasons", fmt.Sprint(record.Reasons), fmt.Sprint(c.reasons))
	compare("rule", cmp.Or(ruleName(rules, record.RuleID), "none"), cmp.Or(c.rule, "none"))
	if c.until != 0 {
		compare("defer_until", clock(record.DeferUntil), clock(c.until))
	}
	if c.channels != nil {
		compare("channels", strings.Join(namesOf(record.Channels), ", "), strings.Join(namesOf(c.channels), ", "))
	}
	if c.follows != nil {
		found, expected := followTexts(record.Facts.FollowUps, *c.follows)
		compare("follow_ups", found, expected)
	}
	if text == "" {
		return ""
	}
	return text[2:]
}

func ruleName(rules []Rule, id uuid.UUID) string {
	if at := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id }); at >= 0 {
		return rules[at].Name
	}
	return ""
}

func clock(at engine.Millis) string {
	if at == 0 {
		return "none"
	}
	return at.Time().Format(time.RFC3339Nano)
}
