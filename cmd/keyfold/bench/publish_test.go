package bench

import (
	"testing"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/profile"
)

// A rate that the broker does not keep up with gathers no batch of all events.
func TestBatchIsBounded(t *testing.T) {
	m := &measurement{app: &app.App{}, Cmd: &Cmd{Rate: 1e6, For: time.Second, Users: 1}, products: []int32{1}, types: eventTypes(), first: firstUser, counts: []int{0}, due: map[profile.AppliedID]time.Time{}}
	began := time.Now().Add(-time.Minute)
	for _, i := range []int{0, m.events() - 10, m.events()} {
		messages, err := m.batch(began, i)
		if want := min(mostTogether, m.events()-i); err != nil || len(messages) != want {
			t.Errorf("from %d on: %d events, want %d: %v", i, len(messages), want, err)
		}
	}
}
