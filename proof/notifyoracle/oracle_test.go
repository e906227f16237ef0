package notifyoracle

import (
	"fmt"
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
