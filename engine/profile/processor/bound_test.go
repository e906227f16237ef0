package processor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/testserver/must"
)

// A letter of what is past the horizon, replayed without --force, is not new: that
// its id is absent says nothing.
//
// Promise(redelivery/letter-bound): A `past_horizon` letter that is replayed without --force is a
// letter again: its bound stays.
func TestALetterPastTheHorizonKeepsItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.again("first").want(t, engine.Folded)
		c.folded++
		bound := engine.Now() - 1000 // a copy of it was published before that
		c.others(500*40, 25*time.Second)
		copied := c.delivered("first")
		copied.firstSeen = bound
		c.apply(batch(copied))
		v := copied.want(t, engine.Dead)
		// what ticket.Settle makes the letter's FirstSeen, which Replay gives back
		replayed := c.delivered("first")
		replayed.firstSeen = max(v.AbsentAt, bound)
		c.apply(batch(replayed))
		if v := replayed.one(t); v.Outcome == engine.Folded {
			t.Errorf("the replayed letter was folded a second time; bound %d became %d", bound, replayed.firstSeen)
		}
		c.exact()
	})
}

// Where the profile cannot be read, parking or retrying a copy does not renew its
// bound.
//
// Promise(redelivery/parked-unread): A copy that is parked unread keeps its bound; an event straight
// from the broker gets one before all that may have folded it.
func TestParkingWithoutALookKeepsTheBound(t *testing.T) {
	for name, cause := range map[string]error{
		"unfit":  &engine.UnreadableError{Users: map[int32]error{1: engine.ConfigurationError("store_corrupt", errors.New("no version"))}},
		"failed": errors.New("executor error"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t)
				c.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
				c.Engine = c.engine(t)
				c.again("first").want(t, engine.Folded)
				c.folded++
				bound := engine.Now() - 1000 // a relay published it twice; the second copy says since when
				c.others(500*40, 25*time.Second)
				for c.profile(t, 1).Applied.Floor <= bound {
					t.Fatal("too tame")
				}
				time.Sleep(20 * time.Minute)
				c.ports.load = func(_ context.Context, users []int32) ([]*profile.Profile, error) {
					return make([]*profile.Profile, len(users)), cause
				}
				copied := c.delivered("first")
				copied.firstSeen = bound
				c.apply(batch(copied))
				v := copied.one(t)
				if v.Outcome != engine.Park && v.Outcome != engine.Retry {
					t.Fatalf("%v", v)
				}
				c.ports.load = nil // cured
				again := c.delivered("first")
				again.firstSeen = max(v.AbsentAt, bound)
				c.apply(batch(again))
				if v := again.one(t); v.Outcome == engine.Folded {
					t.Errorf("folded a second time: bound %d became %d", bound, again.firstSeen)
				}
				c.exact()
			})
		})
	}
}

// An event that comes straight from the broker may have been folded by a worker that had
// it before. Where it is parked without a look, its bound is before all that worker's
// writes: it is not folded again once its id is dropped.
//
// Promise(redelivery/parked-unread)
func TestParkingWithoutALookTakesTheOldestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
		c.Engine = c.engine(t)
		c.again("first").want(t, engine.Folded) // and its acknowledgement is lost
		c.folded++
		c.others(500*20, 25*time.Second)
		c.ports.load = func(_ context.Context, users []int32) ([]*profile.Profile, error) {
			return make([]*profile.Profile, len(users)), &engine.UnreadableError{Users: map[int32]error{1: engine.ConfigurationError("store_corrupt", errors.New("no version"))}}
		}
		redelivered := c.delivered("first")
		c.apply(batch(redelivered))
		v := redelivered.want(t, engine.Park)
		c.ports.load = nil // cured
		c.others(500*6, 25*time.Second)
		copied := c.delivered("first")
		copied.firstSeen = v.AbsentAt
		c.apply(batch(copied))
		if v := copied.want(t, engine.Dead); v.Reason != engine.ReasonPastHorizon {
			t.Errorf("the reason is %q", v.Reason)
		}
		c.exact()
	})
}

// Events that are parked because the catalogue is away are looked up in the store.
//
// Promise(redelivery/parked-store-clock): An event that was parked for an absent catalogue, or while
// the store's clock was behind, is folded when it comes again.
func TestAnAwayCatalogueLooksPastTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
		c.Engine = c.engine(t)
		c.apply(batch(c.delivered("cached")))
		c.folded++
		c.others(500*40, 25*time.Second)
		c.ports.vector = func(key string) (engine.Resolved, bool) {
			return engine.Resolved{Err: errors.New("i/o timeout")}, true
		}
		l := view(1, "new", 2, 1)
		l.arrived = time.Now()
		c.apply(batch(l))
		v := l.want(t, engine.Park)
		c.ports.vector = nil
		time.Sleep(time.Minute)
		copied := view(1, "new", 2, 1)
		copied.arrived, copied.firstSeen = time.Now(), v.AbsentAt
		c.apply(batch(copied))
		copied.want(t, engine.Folded)
	})
}

// The store's clock goes back by 20 minutes: what is parked then is not past the
// horizon.
//
// Promise(redelivery/parked-store-clock)
func TestParkedWhileTheStoresClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.others(500*40, 25*time.Second) // floor is some 10 minutes ago
		c.ports.now = func() engine.Millis { return engine.Now() - 20*60*1000 }
		c.others(500, time.Second)
		up := false
		c.ports.vector = func(key string) (engine.Resolved, bool) {
			if key == "phrase a mug" && !up {
				return engine.Resolved{Err: engine.ErrAway}, true
			}
			return engine.Resolved{}, false
		}
		l := search(1, "new", "a mug", 1)
		l.arrived = time.Now()
		c.apply(batch(l))
		v := l.want(t, engine.Park)
		up = true
		time.Sleep(time.Minute)
		copied := search(1, "new", "a mug", 1)
		copied.arrived, copied.firstSeen = time.Now(), v.AbsentAt
		c.apply(batch(copied))
		copied.want(t, engine.Folded)
	})
}

// A write takes long to arrive. A look between its time and its effect sees nothing,
// and makes a bound later than the time of its ids.
//
// Promise(redelivery/floor): A copy's bound never lies above the floor for a write that takes long to
// arrive: the floor is the time of the group behind the dropped one.
func TestALookBetweenAWritesTimeAndItsEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.others(1, 0)
		slow := c.delivered("x")
		var bound engine.Millis
		c.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
			c.ports.swap = nil
			time.Sleep(30 * time.Second) // the broker has given up the session
			c.ports.vector = func(string) (engine.Resolved, bool) {
				return engine.Resolved{Err: engine.PermanentError("bad", errors.New("bad vector"))}, true
			}
			redelivered := c.again("x")
			bound = redelivered.want(t, engine.Dead).AbsentAt
			c.ports.vector = nil
			time.Sleep(time.Second)
			return c.store.Swap(ctx, profiles)
		}
		c.apply(batch(slow))
		slow.want(t, engine.Folded)
		c.folded++
		at := c.profile(t, 1).Applied.Last()
		t.Logf("write's time %d, its effect later than %d", at, bound)
		time.Sleep(time.Second)
		for c.profile(t, 1).Applied.Floor < at {
			c.others(500, 5*time.Second)
		}
		floor := c.profile(t, 1).Applied.Floor
		replayed := c.delivered("x")
		replayed.firstSeen = bound
		c.other.Apply(context.Background(), []profile.Batch{batch(replayed)})
		if v := replayed.one(t); v.Outcome == engine.Folded {
			t.Errorf("folded twice: bound %d, floor %d", bound, floor)
		}
		c.exact()
	})
}

// The lease of an earlier delivery is over, that of the later one is not.
func TestAYoungTwinTakesTheOverdueOnesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.others(1, 0)
		old, young := c.delivered("x"), c.delivered("x")
		old.arrived = time.Now().Add(-lease + time.Second) // of a session that was lost
		c.ports.swap = func(context.Context, []*profile.Profile) []error {
			c.ports.swap = nil
			time.Sleep(2 * time.Second)
			return []error{engine.ErrConflict}
		}
		c.apply(batch(old, young))
		old.one(t)
		if v := young.one(t); v.Outcome == engine.Unsettled {
			t.Errorf("a delivery that is 2 s old is %v (%v)", v.Outcome, v.Err)
		}
	})
}

// A rebuild has no room for all ids: a copy of an event without one is not new,
// however late it was looked at.
//
// Promise(redelivery/rebuilt): A copy whose id found no room in a rebuilt profile is past the horizon,
// not folded.
func TestRebuildTellsCopiesOfWhatItLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * 24 * time.Hour)
		f := newFixture(t, func(c *processor.Config) { c.Lease, c.IDs.Keep = lease, 100 })
		history := func(yield func(processor.HistoryEvent, error) bool) {
			for i := range 200 {
				e := view(1, fmt.Sprint("h", i), 1, engine.Millis(1000+i)).event
				if !yield(processor.HistoryEvent{Event: e}, nil) { // sent more than IDEMPOTENCY_WINDOW ago
					return
				}
			}
		}
		bound := engine.Now() - 60_000 // "h0" was parked, or dead-lettered, as of a minute ago
		r, err := f.Rebuild(context.Background(), 1, nil, history)
		must.OK(t, err)
		must.OK(t, f.store.Swap(context.Background(), []*profile.Profile{r.Profile})[0])
		l := view(1, "h0", 1, 1000)
		l.arrived, l.firstSeen = time.Now(), bound
		f.apply(batch(l))
		if v := l.one(t); v.Outcome == engine.Folded {
			t.Error("h0 is folded by the rebuild and by its copy")
		}
	})
}
