package notifyoracle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/internal/testserver/must"
)

func at(text string) engine.Millis {
	t, err := time.Parse("2006-01-02T15:04:05.000Z07:00", text)
	if err != nil {
		panic(err)
	}
	return engine.MillisOf(t)
}

// testSet caps three per hour in Berlin, whatever the type but SECURITY.
func testSet(t *testing.T, rules string) *Set {
	t.Helper()
	read, err := readRules([]byte(`{"rules":[` + rules + `]}`))
	must.OK(t, err)
	s := &Set{Version: "1", Zone: "Europe/Berlin", Morning: 480, Digests: []quiet.Clock{540, 1080}, Rules: read}
	for _, kind := range notify.EventTypes {
		s.Policy.Types[kind] = notify.TypePolicy{Capped: true, Quiet: true, Base: 1, HalfLife: 3_600_000}
	}
	s.Policy.Types[notify.Security] = notify.TypePolicy{NowAtLimit: true, Base: 1, HalfLife: 3_600_000}
	s.Policy.Caps = notify.Caps{3, 3, 100}
	s.Policy.Score = notify.ScorePolicy{Weights: notify.Parts{Base: 1}, Now: .5, Later: .3}
	return s
}

func testEvent(n int, kind notify.EventType, at engine.Millis) Event {
	return Event{Notification: &notify.Notification{
		ID: uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Append(nil, n)), UserID: "u", Type: kind, Title: "t", Source: "s",
		Channels: []notify.Channel{notify.Push, notify.Email}, Timestamp: at, Body: []byte(`{}`),
	}}
}

// A NOW at the limit of deferrals passes limits, not quiet hours and snooze. Random histories
// of a usual number do not meet it where some channels are awake.
func TestTheLimitOfDeferralsKeepsQuietChannels(t *testing.T) {
	s := newScene(t, "")
	s.user.Preferences.Quiet = quiet.Hours{{From: 1320, To: 420}}
	night, end := at("2026-06-01T21:00:00.000Z"), at("2026-06-02T05:00:00.000Z")
	s.set.Policy.Types[notify.Promo].NowAtLimit = true
	s.set.Policy.Limits = []notify.Limit{{Name: "one", Most: 1, Within: day}}
	s.decide(s.event(notify.Promo, night-hour-minute))
	last := Turn{Number: notify.MaxTurn}
	d := s.user.Decide(s.set, s.event(notify.Promo, s.noon), last, night)
	if d.Outcome != notify.Postponed || d.DeferUntil != end {
		t.Errorf("%+v", d)
	}
	s.set.Policy.Awake = notify.SetOf(channels(notify.Email))
	d = s.user.Decide(s.set, s.event(notify.Promo, s.noon), last, night)
	if d.Outcome != notify.Now || !slices.Equal(d.Reasons, []string{notify.ReasonDeferLimit, notify.ReasonLimit}) ||
		!slices.Equal(d.Channels, channels(notify.Email)) || !slices.Equal(d.Held, channels(notify.Push)) {
		t.Errorf("%+v", d)
	}
}
