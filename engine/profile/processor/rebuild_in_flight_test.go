package processor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/testserver/must"
)

// 7,000 events of one user are in flight: 3,000 folded and not acknowledged yet,
// 4,000 in the queue. No profile holds so many ids; rebuilt all the same, those
// that come again are folded twice.
func TestRebuildCountsKnownEventsInFlightToo(t *testing.T) {
	f := newFixture(t, func(c *processor.Config) { c.CacheBytes = 0 })
	var all []*letter
	for i := range 7000 {
		all = append(all, view(1, fmt.Sprint("id ", i), 1, engine.Millis(i+1)))
	}
	for i := 0; i < 3000; i += 500 {
		f.apply(batch(all[i : i+500]...))
	}
	r, err := f.Rebuild(context.Background(), 1, f.profile(t, 1), history(true, all...))
	if errors.Is(err, processor.ErrInFlight) {
		return
	}
	must.OK(t, err)
	must.OK(t, f.store.Swap(context.Background(), []*profile.Profile{r.Profile})[0])
	again := make([]*letter, 500) // the connection was lost before they were acknowledged
	for i := range again {
		again[i] = &letter{event: all[i].event}
	}
	f.apply(batch(again...))
	twice := 0
	for _, l := range again {
		if l.one(t).Outcome == engine.Folded {
			twice++
		}
	}
	if twice > 0 {
		t.Errorf("%d of 500 were folded twice", twice)
	}
}
