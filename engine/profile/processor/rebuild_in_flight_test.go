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

// A worker may look at the profile between a rebuild's time and its write. A copy that got its
// bound there is refused: its event may be one of those that the rebuild folded and kept no id of.
//
// Promise(rebuild/looked-at): A copy that waits while its user is rebuilt is not folded twice,
// whenever it was last looked up, and however many events the history has.
func TestRebuildRefusesCopiesLookedUpBeforeItsWrite(t *testing.T) {
	ctx := t.Context()
	for name, write := range map[string]func(*fixture, *profile.Profile) error{
		"replaced": func(f *fixture, p *profile.Profile) error { return f.Replace(ctx, p) },
		"killed between its writes": func(f *fixture, p *profile.Profile) error {
			return f.store.Swap(ctx, []*profile.Profile{p})[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(c *processor.Config) { c.CacheBytes, c.IDs.Keep, c.IDs.Max = 0, 100, 1000 })
			clock := engine.Now()
			f.ports.now = func() engine.Millis { clock++; return clock }
			apiDown := true
			f.ports.vector = func(key string) (engine.Resolved, bool) {
				return engine.Resolved{Err: errors.New("timeout")}, apiDown && key == "phrase tea"
			}
			// lookedUp delivers an event whose vector cannot be had, and returns its copy.
			lookedUp := func(id string) *letter {
				l := search(1, id, "tea", 1)
				apiDown = true
				f.apply(batch(l))
				apiDown = false
				return &letter{event: l.event, firstSeen: l.want(t, engine.Retry).AbsentAt}
			}
			old := search(1, "old", "tea", 1)
			all := []*letter{old}
			for i := range 100 {
				all = append(all, view(1, fmt.Sprint("id ", i), 1, engine.Millis(i+2)))
			}
			f.apply(batch(all[1:50]...))
			apiDown = false
			r, err := f.Rebuild(ctx, 1, f.profile(t, 1), history(false, all...))
			if err != nil {
				t.Fatal(err)
			}
			early := lookedUp("old")
			if err := write(f, r.Profile); err != nil {
				t.Fatal(err)
			}
			f.apply(batch(early))
			if v := early.want(t, engine.Dead); v.Reason != engine.ReasonPastHorizon {
				t.Errorf("the reason is %q", v.Reason)
			}
			f.apply(batch(view(1, "next", 1, 200))) // dates the floor where no second write did
			again := &letter{event: early.event, firstSeen: early.firstSeen}
			f.apply(batch(again))
			again.want(t, engine.Dead)
			late := lookedUp("late") // what is looked up now is in no history that was read
			f.apply(batch(late))
			late.want(t, engine.Folded)
			if p := f.profile(t, 1); p.EventCount != 103 {
				t.Errorf("%d events", p.EventCount)
			}
		})
	}
}
