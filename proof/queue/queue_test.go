package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func events(n int) []profile.Event {
	all := make([]profile.Event, n)
	for i := range all {
		all[i].MessageID = fmt.Sprint(i)
	}
	return all
}

func TestRunEndsWhenAllIsSettled(t *testing.T) {
	q := NewQueue()
	q.Publish(events(100)...)
	q.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	var order []string
	err := q.Run(context.Background(), 7, func(_ context.Context, ds []profile.Delivery) error {
		if len(ds) > 7 {
			t.Errorf("a chunk of %d", len(ds))
		}
		for _, d := range ds {
			if d.FirstSeen == 0 {
				order = append(order, d.Event.MessageID)
			}
		}
		wg.Go(func() { // settlements come from elsewhere, later
			for _, d := range ds {
				if m := d.Settler.(*Message); m.Attempts == 1 && m.Event.MessageID == "13" {
					d.Settler.Settle(engine.Verdict{Outcome: engine.Retry})
					continue
				}
				d.Settler.Settle(engine.Verdict{Outcome: engine.Folded})
			}
		})
		return nil
	})
	must.OK(t, err)
	if f, r := q.Count(engine.Folded), q.Count(engine.Retry); f != 100 || r != 1 {
		t.Errorf("%d folded and %d retried, want 100 and 1", f, r)
	}
	for i, id := range order {
		if id != fmt.Sprint(i) {
			t.Fatalf("delivery %d is %s", i, id)
		}
	}
}

func TestRetryKeepsFirstSeen(t *testing.T) {
	q := NewQueue()
	q.Publish(events(1)...)
	q.Close()
	var seen []engine.Millis
	_ = q.Run(context.Background(), 1, func(_ context.Context, ds []profile.Delivery) error {
		seen = append(seen, ds[0].FirstSeen)
		outcome := engine.Retry
		if len(seen) == 3 {
			outcome = engine.Folded
		}
		ds[0].Settler.Settle(engine.Verdict{Outcome: outcome})
		return nil
	})
	if len(seen) != 3 || seen[0] != 0 || seen[1] == 0 || seen[1] != seen[2] {
		t.Errorf("first seen: %v", seen)
	}
}

func TestRunStops(t *testing.T) {
	q := NewQueue()
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if err := q.Run(ctx, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	q.Publish(events(1)...)
	broken := errors.New("full")
	if err := q.Run(context.Background(), 1, func(context.Context, []profile.Delivery) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
}

func TestSecondSettlementPanics(t *testing.T) {
	q := NewQueue()
	q.Publish(events(1)...)
	q.Close()
	_ = q.Run(context.Background(), 1, func(_ context.Context, ds []profile.Delivery) error {
		ds[0].Settler.Settle(engine.Verdict{Outcome: engine.Folded})
		defer func() {
			if recover() == nil {
				t.Error("a second settlement went through")
			}
		}()
		ds[0].Settler.Settle(engine.Verdict{Outcome: engine.Folded})
		return nil
	})
}

// A parked event comes again, with no attempt used, and the queue does not end
// without it.
func TestParkedEventsComeAgain(t *testing.T) {
	q := NewQueue()
	q.Publish(events(3)...)
	q.Close()
	err := q.Run(context.Background(), 2, func(_ context.Context, ds []profile.Delivery) error {
		for _, d := range ds {
			v := engine.Verdict{Outcome: engine.Folded}
			if d.FirstSeen == 0 && d.Event.MessageID == "1" {
				v = engine.Verdict{Outcome: engine.Park, Err: engine.ErrAway}
			}
			d.Settler.Settle(v)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if f, p := q.Count(engine.Folded), q.Count(engine.Park); f != 3 || p != 1 {
		t.Errorf("%d folded and %d parked, want 3 and 1", f, p)
	}
}
