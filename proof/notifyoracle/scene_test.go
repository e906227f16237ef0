package notifyoracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

const (
	hour = 60 * minute
	day  = 24 * hour
)

// scene is one user on a day in June, from noon in Berlin on. All scores are high.
type scene struct {
	t    *testing.T
	user *User
	set  *Set
	noon engine.Millis
	n    int
}

func newScene(t *testing.T, rules string) *scene {
	s := &scene{t: t, user: New().User("u"), set: testSet(t, rules), noon: at("2026-06-01T10:00:00.000Z")}
	s.set.Policy.Caps = notify.Caps{200, 200, 200}
	return s
}

// quietNight has quiet hours from 22:00 to 07:00; it returns their end of the first night.
func (s *scene) quietNight() (night, end engine.Millis) {
	s.user.Preferences.Quiet = quiet.Hours{{From: 1320, To: 420}}
	return at("2026-06-01T21:00:00.000Z"), at("2026-06-02T05:00:00.000Z")
}

// event comes at an instant on push and email, with an order of its own.
func (s *scene) event(kind notify.EventType, now engine.Millis) Event {
	s.n++
	e := testEvent(s.n, kind, now)
	e.Object = map[string]any{"order_id": fmt.Sprint("order ", s.n)}
	return e
}

// decide decides an event at its timestamp, on turn 0.
func (s *scene) decide(e Event) Decision { return s.user.Decide(s.set, e, Turn{}, e.Timestamp) }

// comes decides an event of a type.
func (s *scene) comes(kind notify.EventType, now engine.Millis) Decision {
	return s.decide(s.event(kind, now))
}

// child returns the follow-up that a decision leaves.
func (s *scene) child(parent Event, d *Decision, i int) Event {
	s.t.Helper()
	if i >= len(d.FollowUps) {
		s.t.Fatalf("it leaves %d follow-ups: %+v", len(d.FollowUps), d)
	}
	return Event{Notification: Child(parent.Notification, &d.FollowUps[i]), Object: parent.Object}
}

// want is what is expected of a decision; what is zero is not looked at.
type want struct {
	outcome  notify.Outcome
	reasons  []string
	until    engine.Millis
	channels []notify.Channel
	key      string
}

func (s *scene) expect(d *Decision, w want) {
	s.t.Helper()
	if d.Outcome != w.outcome || !slices.Equal(d.Reasons, w.reasons) || w.until != 0 && d.DeferUntil != w.until ||
		w.channels != nil && !slices.Equal(d.Channels, w.channels) || w.key != "" && d.DigestKey != w.key {
		s.t.Errorf("want %v %v until %v on %v, digest %q;\n got %v %v until %v on %v, digest %q", w.outcome, w.reasons, w.until.Time(), w.channels, w.key,
			d.Outcome, d.Reasons, d.DeferUntil.Time(), d.Channels, d.DigestKey)
	}
}

func reasons(all ...string) []string { return all }

func channels(all ...notify.Channel) []notify.Channel { return all }

// rule returns the document of a rule for a type.
func ruleFor(kind notify.EventType, action map[string]any) string {
	text, err := json.Marshal(map[string]any{
		"rule_id": "00000000-0000-4000-8000-000000000001", "priority": 1, "enabled": true, "action": action,
		"conditions": map[string]any{"field": "event_type", "operator": "eq", "value": kind.String()},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}
