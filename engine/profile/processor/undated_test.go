package processor_test

import (
	"context"
	"fmt"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/testserver/must"
)

// An interrupt between the two writes of a rebuild comes after both.
func TestRebuildInterruptedBetweenItsWrites(t *testing.T) {
	f := newFixture(t, func(c *processor.Config) { c.CacheBytes, c.IDs.Keep, c.IDs.Max = 0, 100, 1000 })
	var all []*letter
	for i := range 101 {
		all = append(all, view(1, fmt.Sprint("id ", i), 1, engine.Millis(i+2)))
	}
	r, err := f.Rebuild(t.Context(), 1, nil, history(false, all...))
	must.OK(t, err)
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
