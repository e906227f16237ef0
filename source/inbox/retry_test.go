package inbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

var errFlaky = errors.New("embedding API: 503")

func retried(deliveries []profile.Delivery) {
	for _, d := range deliveries {
		d.Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: errFlaky})
	}
}

// bubble runs fn on an inbox whose clock is the bubble's.
func bubble(t *testing.T, fn func(t *testing.T, b *bench)) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	synctest.Test(t, func(t *testing.T) {
		b := start(t, path, patient, nil)
		defer b.stop()
		fn(t, b)
	})
}

// Each look at a parked event's profile renews the time since when it is known not
// to be folded.
func TestParkedEventsCarryTheLastLook(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var seen []engine.Millis
		park := func(d profile.Delivery) {
			looked := engine.MillisOf(time.Now()) + engine.Millis(len(seen))
			d.Settler.Settle(engine.Verdict{Outcome: engine.Park, Err: errFlaky, AbsentAt: looked})
			seen = append(seen, looked)
		}
		b.Start(func(_ context.Context, ds []profile.Delivery) error {
			if len(ds) != 1 || ds[0].FirstSeen != seen[len(seen)-1] {
				t.Errorf("redelivered %+v, want as of %v", ds, seen)
			}
			if len(seen) < 3 {
				park(ds[0])
			} else {
				settle(ds, engine.Folded)
			}
			return nil
		})
		park(b.add(t, event(1, 0))[0])
		b.idle(t)
		if len(seen) != 3 {
			t.Errorf("parked %d times", len(seen))
		}
	})
}

func TestRetrySchedule(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		began := time.Now()
		var at []time.Duration
		b.Start(func(_ context.Context, ds []profile.Delivery) error {
			at = append(at, time.Since(began))
			if len(ds) != 1 || ds[0].FirstSeen != engine.MillisOf(began) || ds[0].Event != event(1, 0).Event {
				t.Errorf("redelivered %+v", ds)
			}
			retried(ds)
			return nil
		})
		retried(b.add(t, event(1, 0)))
		b.idle(t)
		var want []time.Duration
		for sum, d := time.Duration(0), []time.Duration{5, 10, 20, 40, 60}; len(d) > 0; d = d[1:] {
			sum += d[0] * time.Second
			want = append(want, sum)
		}
		if !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		letters := b.letters(t)
		if len(letters) != 1 || letters[0].Reason != engine.ReasonRetriesExhausted || letters[0].Detail != errFlaky.Error() {
			t.Errorf("letters %+v", letters)
		}
		if s := b.Stats(); s.Retried != 5 || s.Dead[engine.ReasonRetriesExhausted] != 1 || b.pending(t) != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// One tick before it is due nothing comes; what is due together comes by
// arrival, and an earlier one overtakes.
func TestRetryOrder(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var got []string
		b.Start(func(_ context.Context, ds []profile.Delivery) error {
			got = append(got, ids(ds)...)
			settle(ds, engine.Folded)
			return nil
		})
		ds := b.add(t, events(1, 0, 3)...)
		slices.Reverse(ds)
		retried(ds[:2])
		time.Sleep(5*time.Second - time.Nanosecond)
		synctest.Wait()
		if len(got) != 0 {
			t.Fatalf("%d came too early", len(got))
		}
		retried(ds[2:])
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if want := []string{ds[1].Event.MessageID, ds[0].Event.MessageID}; !slices.Equal(got, want) {
			t.Errorf("redelivered %v, want %v", got, want)
		}
		b.idle(t)
		if len(got) != 3 || b.pending(t) != 0 {
			t.Errorf("%d redelivered", len(got))
		}
	})
}

func TestRefusedRetriesUseNoAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		calls := 0
		b.Start(func(_ context.Context, ds []profile.Delivery) error {
			if calls++; calls < 20 {
				return errors.New("full")
			}
			settle(ds, engine.Folded)
			return nil
		})
		retried(b.add(t, events(1, 0, 2)...))
		b.idle(t)
		if s := b.Stats(); calls != 20 || s.Folded != 2 || s.Retried != 2 {
			t.Errorf("%d calls, stats %+v", calls, s)
		}
	})
}

// Of two verdicts on one delivery the first one counts, also once the event was
// delivered again.
//
// Promise(rabbitmq/verdicts)
func TestSettledTwice(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var again []profile.Delivery
		b.Start(func(_ context.Context, ds []profile.Delivery) error {
			again = append(again, ds...)
			return nil
		})
		ds := b.add(t, events(1, 0, 3)...)
		retried(ds[:1])
		retried(ds[:1])
		settle(ds[1:2], engine.Folded)
		settle(ds[1:2], engine.Dead)
		settle(ds[2:], engine.Dead)
		settle(ds[2:], engine.Unsettled)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(again) != 1 {
			t.Fatalf("%d delivered again, want one", len(again))
		}
		settle(ds[:1], engine.Dead) // on the earlier delivery
		settle(again, engine.Folded)
		b.idle(t)
		if s := b.Stats(); s.Folded != 2 || s.Retried != 1 || len(s.Dead) != 1 || len(b.letters(t)) != 1 || b.pending(t) != 0 {
			t.Errorf("stats %+v, letters %+v", s, b.letters(t))
		}
	})
}

func TestStopLeavesRetriesPending(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		entered := make(chan struct{})
		b.Start(func(ctx context.Context, _ []profile.Delivery) error {
			close(entered)
			<-ctx.Done()
			return ctx.Err()
		})
		ds := b.add(t, events(1, 0, 4)...)
		retried(ds[:1])
		<-entered
		retried(ds[1:2])
		b.Stop()
		b.Stop()
		retried(ds[2:3])              // after the stop
		settle(ds[3:], engine.Folded) // still written
		b.idle(t)
		if n := b.pending(t); n != 3 {
			t.Errorf("%d pending, want 3", n)
		}
		b.Start(func(context.Context, []profile.Delivery) error { t.Error("delivered after Stop"); return nil })
	})
}

func TestNoRetries(t *testing.T) {
	b := start(t, filepath.Join(t.TempDir(), "inbox.db"), Config{RetryDelay: time.Second}, nil)
	defer b.stop()
	retried(b.add(t, event(1, 0)))
	b.idle(t)
	if l := b.letters(t); len(l) != 1 || l[0].Reason != engine.ReasonRetriesExhausted {
		t.Errorf("letters %+v", l)
	}
}

// Everything at once, for the race detector: each event is folded once, and
// nothing is left.
func TestStress(t *testing.T) {
	b := start(t, filepath.Join(t.TempDir(), "inbox.db"), Config{RetryDelay: time.Millisecond, MaxRetries: 3}, nil)
	defer b.stop()
	var settlers sync.WaitGroup
	take := func(_ context.Context, ds []profile.Delivery) error {
		settlers.Go(func() {
			for i, d := range ds {
				if d.FirstSeen == 0 && i%3 == 0 {
					retried(ds[i : i+1])
					continue
				}
				d.Settler.Settle(engine.Verdict{Outcome: engine.Folded})
			}
		})
		return nil
	}
	b.Start(take)
	fails := 0
	b.writer.setCommit(func() error {
		if fails++; fails%5 == 0 {
			return errors.New("now and then")
		}
		return nil
	})
	var adders sync.WaitGroup
	for user := 1; user <= 8; user++ {
		adders.Go(func() {
			for n := 0; n < 20; {
				_, ds, err := b.Add(context.Background(), events(user, n*7, 10)) // overlapping
				if err != nil {
					continue // the commit failed: nothing is stored
				}
				n++
				_ = take(context.Background(), ds)
				b.Stats()
			}
		})
	}
	adders.Wait()
	b.idle(t)
	b.Stop()
	settlers.Wait()
	if s := b.Stats(); s.Folded != 8*(19*7+10) || b.pending(t) != 0 {
		t.Errorf("stats %+v, %d pending", s, b.pending(t))
	}
}
