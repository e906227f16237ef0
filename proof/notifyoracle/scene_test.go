package notifyoracle

import (
	"encoding/json"
	"fmt"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
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

// event comes at an instant on push and email, with an order of its own.
func (s *scene) event(kind notify.EventType, now engine.Millis) Event {
	s.n++
	e := testEvent(s.n, kind, now)
	e.Object = map[string]any{"order_id": fmt.Sprint("order ", s.n)}
	return e
}

// decide decides an event at its timestamp, on turn 0.
func (s *scene) decide(e Event) Decision { return s.user.Decide(s.set, e, Turn{}, e.Timestamp) }

// child returns the follow-up that a decision leaves.
func (s *scene) child(parent Event, d *Decision, i int) Event {
	s.t.Helper()
	if i >= len(d.FollowUps) {
		s.t.Fatalf("it leaves %d follow-ups: %+v", len(d.FollowUps), d)
	}
	return Event{Notification: Child(parent.Notification, &d.FollowUps[i]), Object: parent.Object}
}

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

// escalated has a rule by which an ALERT on push is followed by an SMS after an hour and by
// an e-mail after another one.
func escalated(t *testing.T, unless string) (*scene, Event, Decision) {
	s := newScene(t, ruleFor(notify.Alert, map[string]any{
		"outcome": "NOW", "reason_code": "R", "channel_override": []string{"push"},
		"escalate": []map[string]any{
			{"after": "1h", "channels": []string{"sms"}, "unless": unless},
			{"after": "1h", "channels": []string{"email"}, "unless": unless},
		},
	}))
	e := s.event(notify.Alert, s.noon)
	return s, e, s.decide(e)
}
