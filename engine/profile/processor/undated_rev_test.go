package processor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
)

// A rebuild was killed between its writes. What is looked up after that is proven new.
func TestReviewUndatedTakesWhatIsLookedUpAfterIt(t *testing.T) {
	ctx := t.Context()
	f := newFixture(t, func(c *processor.Config) { c.CacheBytes, c.IDs.Keep, c.IDs.Max = 0, 100, 1000 })
	clock := engine.Now()
	f.ports.now = func() engine.Millis { clock++; return clock }
	apiDown := false
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		return engine.Resolved{Err: errors.New("timeout")}, apiDown && strings.HasPrefix(key, "phrase")
	}
	var all []*letter
	for i := range 101 {
		all = append(all, view(1, fmt.Sprint("id ", i), 1, engine.Millis(i+2)))
	}
	f.apply(batch(all[1:50]...))
	r, err := f.Rebuild(ctx, 1, f.profile(t, 1), history(false, all...))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.Swap(ctx, []*profile.Profile{r.Profile})[0]; err != nil {
		t.Fatal(err)
	}
	dead := 0
	for hour := range 5 { // hours later, the embedding API is away and comes back, again and again
		clock += 3600_000
		l := search(1, fmt.Sprint("search ", hour), fmt.Sprint("tea ", hour), engine.Millis(1000+hour))
		apiDown = true
		f.apply(batch(l))
		apiDown = false
		again := &letter{event: l.event, firstSeen: l.want(t, engine.Retry).AbsentAt}
		clock += 60_000
		f.apply(batch(again))
		if v := again.one(t); v.Outcome != engine.Folded {
			dead++
			t.Logf("%v: %v", v.Outcome, v.Err)
		}
	}
	if dead > 0 {
		t.Errorf("%d of 5 new events are dead letters; the floor is %v", dead, f.profile(t, 1).Applied.Floor.Time())
	}
}

// An interrupt (Ctrl-C) between the two writes.
func TestReviewInterruptedBetweenTheWrites(t *testing.T) {
	f := newFixture(t, func(c *processor.Config) { c.CacheBytes, c.IDs.Keep, c.IDs.Max = 0, 100, 1000 })
	var all []*letter
	for i := range 101 {
		all = append(all, view(1, fmt.Sprint("id ", i), 1, engine.Millis(i+2)))
	}
	r, err := f.Rebuild(t.Context(), 1, nil, history(false, all...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.ports.swap = func(ctx context.Context, p []*profile.Profile) []error {
		errs := f.store.Swap(ctx, p)
		cancel()
		return errs
	}
	err = f.Replace(ctx, r.Profile)
	f.ports.swap = nil
	if floor := f.profile(t, 1).Applied.Floor; floor == profile.Undated {
		t.Errorf("the floor is %v after %v", floor.Time(), err)
	}
}
