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
)

// The lease and the horizon of the default settings; see internal/settings.
const (
	lease   = 90 * time.Second
	horizon = 10 * time.Minute
)

// crowd is a user of whom several workers fold many events.
type crowd struct {
	*fixture
	t       *testing.T
	other   *processor.Engine // another worker
	folded  int64             // events that have to be in the profile
	numbers int
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, fixture: newFixture(t, func(c *processor.Config) { c.Lease = lease })}
	c.other = c.engine(t)
	return c
}

// delivered is a delivery that came just now.
func (c *crowd) delivered(id string) *letter {
	l := view(1, id, 1, 1)
	l.arrived = time.Now()
	return l
}

// others have the other worker fold n events of the user, 500 at a time and as far
// apart as pause.
func (c *crowd) others(n int, pause time.Duration) {
	c.t.Helper()
	for n > 0 {
		letters := make([]*letter, min(n, 500))
		for i := range letters {
			c.numbers++
			letters[i] = c.delivered(fmt.Sprint("other ", c.numbers))
		}
		c.other.Apply(context.Background(), []profile.Batch{batch(letters...)})
		for _, l := range letters {
			l.want(c.t, engine.Folded)
		}
		c.folded += int64(len(letters))
		n -= len(letters)
		time.Sleep(pause)
	}
}

// again delivers an event once more, to the other worker.
func (c *crowd) again(id string) *letter {
	l := c.delivered(id)
	c.other.Apply(context.Background(), []profile.Batch{batch(l)})
	return l
}

// exact checks that every event is in the profile once.
func (c *crowd) exact() {
	c.t.Helper()
	if p := c.profile(c.t, 1); p.EventCount != c.folded {
		c.t.Errorf("the profile counts %d events, want %d", p.EventCount, c.folded)
	}
}

// A worker is frozen for 25 minutes just before its write. The broker has given
// its events to another one meanwhile, who folded them and thousands more.
//
// Promise(redelivery/frozen-worker): A worker that was frozen for 25 minutes before its write writes
// nothing twice; the event is left to the broker.
func TestAFrozenWorkerWritesNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.others(1, 0)
		frozen := c.delivered("frozen")
		c.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
			c.ports.swap = nil
			time.Sleep(40 * time.Second) // until the broker misses the heartbeats
			c.again("frozen").want(t, engine.Folded)
			c.folded++
			c.others(18_000, 40*time.Second)
			return c.store.Swap(ctx, profiles)
		}
		c.apply(batch(frozen))
		frozen.want(t, engine.Unsettled)
		c.exact()
		if n := c.Stats().Overdue.Load(); n != 1 {
			t.Errorf("%d overdue", n)
		}
	})
}

// Every worker is away for longer than the horizon, and a fresh event is folded
// before the broker delivers the others again.
//
// Promise(redelivery/long-absence): After days without any worker a redelivered event is a duplicate:
// a pause ages ids by a minute.
func TestRedeliveryAfterALongAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.again("first").want(t, engine.Folded) // and its acknowledgement is lost
		c.folded++
		c.others(6000, 0)
		time.Sleep(72 * time.Hour)
		c.others(1, 0)
		c.again("first").want(t, engine.Duplicate)
		c.again("other 1").want(t, engine.Duplicate)
		c.exact()
	})
}

// Two failed deliveries in a row, each as long as it can be, while the user goes on.
//
// Promise(redelivery/two-failures): An event whose two deliveries in a row failed, each as late as it
// can, is a duplicate.
func TestRedeliveryAfterTwoFailedHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.again("first").want(t, engine.Folded)
		c.folded++
		const hops = 2*(2*lease+30*time.Second) + lease
		c.others(500*int(hops/(5*time.Second)), 5*time.Second)
		c.again("first").want(t, engine.Duplicate)
		c.exact()
		if p := c.profile(t, 1); p.Applied.Floor != 0 {
			t.Errorf("ids were dropped before the horizon: %d are left", len(p.Applied.IDs))
		}
	})
}

// The time of ids is the store's: this worker's clock is 20 minutes ahead, and its
// ids are as old as those of all others.
//
// Promise(redelivery/wrong-clock): Clocks of workers or of the store that are 20 minutes wrong double
// nothing: times are the store's, and none counts for more than a minute.
func TestAClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		store := func() engine.Millis { return engine.Now() - 20*60*1000 }
		c.ports.now = store
		for range 20 {
			c.others(500, time.Second)
		}
		a := c.profile(t, 1).Applied
		if at, now := a.Last(), store(); at > now || at < now-5000 {
			t.Errorf("the last ids are of %v, the store's time is %v", at.Time(), now.Time())
		}
		if a.Floor != 0 || len(a.IDs) != 10_000 {
			t.Errorf("%d of 10000 ids are there after 20 s", len(a.IDs))
		}
	})
}

// The copy in a delay queue and the redelivered original of one event: whichever
// comes first is folded, and the other one not, however late.
//
// Promise(redelivery/parked-copy): Of a parked copy and its redelivered original the second is a
// duplicate or past the horizon.
func TestParkedCopyAndRedeliveredOriginal(t *testing.T) {
	for name, late := range map[string]time.Duration{"within the horizon": 2 * time.Minute, "beyond it": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t)
				c.others(10, time.Second)
				away := errors.New("no route to host")
				c.ports.vector = func(string) (engine.Resolved, bool) {
					return engine.Resolved{Err: fmt.Errorf("%w: %w", engine.ErrAway, away)}, true
				}
				phrase := search(1, "parked", "a mug", 1)
				phrase.arrived = time.Now()
				c.apply(batch(phrase))
				bound := phrase.want(t, engine.Park).AbsentAt
				if bound != engine.Now() {
					t.Fatalf("parked as of %d, want the time of the look, %d", bound, engine.Now())
				}
				c.ports.vector = nil
				time.Sleep(time.Second)
				original := search(1, "parked", "a mug", 1)
				original.arrived = time.Now()
				c.other.Apply(context.Background(), []profile.Batch{batch(original)})
				original.want(t, engine.Folded)
				c.folded++
				c.others(500*int(late/(5*time.Second)), 5*time.Second)
				copied := search(1, "parked", "a mug", 1)
				copied.arrived, copied.firstSeen = time.Now(), bound
				c.apply(batch(copied))
				if v := copied.one(t); v.Outcome != engine.Duplicate && v.Reason != "past_horizon" {
					t.Errorf("the copy is %v", v)
				}
				c.exact()
			})
		})
	}
}

// A search that is parked again and again, while thousands of its user's product
// events are folded, is folded in the end: each look says that it was not yet.
//
// Promise(redelivery/parked-hours): An event that is parked for hours while its user goes on is
// folded: each look renews its bound.
func TestParkingRenewsTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		up := false
		c.ports.vector = func(key string) (engine.Resolved, bool) {
			if key == "phrase a mug" && !up {
				return engine.Resolved{Err: engine.ErrAway}, true
			}
			return engine.Resolved{}, false
		}
		first := engine.Now()
		bound := engine.Millis(0)
		for range 40 {
			phrase := search(1, "parked", "a mug", 1)
			phrase.arrived, phrase.firstSeen = time.Now(), bound
			c.apply(batch(phrase))
			bound = phrase.want(t, engine.Park).AbsentAt
			c.others(6000, 5*time.Second) // a minute
		}
		if p := c.profile(t, 1); p.Applied.Floor <= first {
			t.Fatalf("the test is too tame: no id of after the first parking was dropped")
		}
		up = true
		phrase := search(1, "parked", "a mug", 1)
		phrase.arrived, phrase.firstSeen = time.Now(), bound
		c.apply(batch(phrase))
		phrase.want(t, engine.Folded)
		c.folded++
		c.exact()
	})
}

// What comes again is looked up in the store: a cached profile does not know what
// another worker has folded since.
//
// Promise(redelivery/parked-copy)
func TestParkingLooksPastTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.apply(batch(c.delivered("cached"))) // this worker caches the profile
		c.folded++
		c.again("elsewhere").want(t, engine.Folded)
		c.folded++
		c.ports.vector = func(string) (engine.Resolved, bool) { return engine.Resolved{Err: engine.ErrAway}, true }
		l := search(1, "elsewhere", "a mug", 1)
		l.arrived = time.Now()
		c.apply(batch(l))
		l.want(t, engine.Duplicate)
		c.exact()
	})
}

// A write with an unknown outcome waits for the store's answer while others fold
// thousands of events of the user. It is found, or left to the broker.
//
// Promise(redelivery/unknown-write): A write whose outcome is unknown, for a minute or for ten, is
// found by its group, or its events go back to the broker after the lease.
func TestUnknownWriteWhileOthersFold(t *testing.T) {
	for name, wait := range map[string]time.Duration{"a minute": time.Minute, "ten minutes": 10 * time.Minute} {
		for _, applied := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", written: ", applied), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCrowd(t)
					c.others(1, 0)
					held := c.delivered("held")
					c.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
						c.ports.swap = nil
						if applied {
							c.store.Swap(ctx, profiles)
							c.folded++
						}
						c.others(5000, wait/10)
						return []error{engine.ErrUnknown}
					}
					c.apply(batch(held))
					switch v := held.one(t); {
					case wait > lease:
						held.want(t, engine.Unsettled)
						if v := c.again("held"); applied {
							v.want(t, engine.Duplicate)
						} else {
							v.want(t, engine.Folded)
							c.folded++
						}
					case v.Outcome != engine.Folded:
						t.Errorf("held is %v", v)
					case !applied:
						c.folded++
					}
					c.exact()
				})
			})
		}
	}
}

// After an unknown write an event that comes again carries the time before it, not
// that of a later look: the write may still come into effect.
//
// Promise(redelivery/unknown-write)
func TestUnknownWriteKeepsTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *processor.Config) { c.Lease, c.Conflicts, c.Failures = lease, 2, 2 })
		f.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
		f.Engine = f.engine(t)
		began := engine.Now()
		f.ports.swap = func(context.Context, []*profile.Profile) []error {
			time.Sleep(time.Second)
			return []error{engine.ErrUnknown}
		}
		l := view(1, "a", 1, 1)
		l.arrived = time.Now()
		f.apply(batch(l))
		if v := l.want(t, engine.Retry); v.AbsentAt != began {
			t.Errorf("absent as of %d, want the look before the first write, %d", v.AbsentAt, began)
		}
	})
}

// A batch whose write may have happened is rejected when it is written again, and halved:
// what a half looks up is no proof that its events are absent.
//
// Promise(redelivery/unknown-write)
func TestHalvesKeepTheUnknownWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *processor.Config) { c.Lease, c.Conflicts, c.Failures = lease, 2, 2 })
		f.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
		f.Engine = f.engine(t)
		began, writes := engine.Now(), 0
		f.ports.swap = func(context.Context, []*profile.Profile) []error {
			time.Sleep(time.Second)
			if writes++; writes == 2 {
				return []error{engine.PermanentError("document_rejected", errors.New("failed validation"))}
			}
			return []error{engine.ErrUnknown}
		}
		a, b := view(1, "a", 1, 1), view(1, "b", 1, 1)
		a.arrived, b.arrived = time.Now(), time.Now()
		f.apply(batch(a, b))
		for _, l := range []*letter{a, b} {
			if v := l.one(t); v.AbsentAt != began {
				t.Errorf("%v: absent as of %d, want the look before the first write, %d", v.Outcome, v.AbsentAt, began)
			}
		}
		if writes < 3 {
			t.Errorf("%d writes: no half was written", writes)
		}
	})
}

// A user with more events than a profile has room for is slowed down: what finds
// no room is parked, others are folded as ever, and in the end everything is.
//
// Promise(redelivery/over-the-cap): Events of a user who has more than a profile has room for are
// parked with no attempt used; other users go on.
// Promise(bounds/ids)
func TestAUserOverTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *processor.Config) {
			c.Lease = lease
			c.IDs.Max, c.IDs.Keep, c.IDs.Min = 1000, 100, 10
		})
		waiting := make([]*letter, 3000)
		for i := range waiting {
			waiting[i] = view(1, fmt.Sprint("flood ", i), 1, 1)
		}
		for round := 0; len(waiting) > 0; round++ {
			if round > 60 {
				t.Fatalf("%d events are still waiting", len(waiting))
			}
			quiet := view(2, fmt.Sprint("quiet ", round), 2, 1)
			f.apply(batch(waiting...), batch(quiet))
			quiet.want(t, engine.Folded)
			var parked []*letter
			for _, l := range waiting {
				if v := l.one(t); v.Outcome == engine.Park {
					again := view(1, l.event.MessageID, 1, 1)
					again.firstSeen = v.AbsentAt
					parked = append(parked, again)
				} else {
					l.want(t, engine.Folded)
				}
			}
			if p := f.profile(t, 1); len(p.Applied.IDs) > 1000+10*10 {
				t.Fatalf("%d ids, the cap is 1000 and ten writes of 10", len(p.Applied.IDs))
			}
			waiting = parked
			time.Sleep(time.Minute) // the delay queue's
		}
		if p := f.profile(t, 1); p.EventCount != 3000 {
			t.Errorf("%d events, want 3000", p.EventCount)
		}
	})
}
