package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/sink/ledger/cache"
	"keyfold/sink/ledgertest"
)

type fixedSet struct{ *notify.Set }

func (s fixedSet) Current() *notify.Set { return s.Set }

// confirmed confirms every dispatch.
type confirmed struct{}

func (confirmed) Send(_ context.Context, all []notify.Dispatch) []error {
	return make([]error, len(all))
}

// TestRoundTrips counts what passes between the processor and the server: a flush of
// many users, whose events are decided, committed and dispatched, is two round trips,
// and one where the users' states are cached. The marks of the dispatches go with the
// next flush.
//
// Promise(ledger/round-trips): A flush of many users takes two round trips, and one where the users'
// states are cached.
func TestRoundTrips(t *testing.T) {
	t.Run("uncached", func(t *testing.T) {
		testRoundTrips(t, func(l *Ledger) notify.Ledger { return l }, 2, 2, 2)
	})
	t.Run("cached", func(t *testing.T) {
		testRoundTrips(t, func(l *Ledger) notify.Ledger { return cache.New(l, 1<<20) }, 2, 1, 1)
	})
}

func testRoundTrips(t *testing.T, front func(*Ledger) notify.Ledger, trips ...int64) {
	server := pgtest.Shared(t)
	r := newRelay(t, server.Address())
	l := openAt(t, strings.Replace(newURL(t), server.Address(), r.Addr().String(), 1)+"&pool_max_conns=1")
	document, faults := rule.Read(rule.Default())
	if document == nil {
		t.Fatal(faults.Err())
	}
	zone, err := quiet.LoadZone("UTC")
	must.OK(t, err)
	set := rule.Compile(document, notify.Local{Zone: zone, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60}})
	now := start
	p, err := processor.New(processor.DefaultConfig(), processor.Ports{
		Ledger: front(l), Dispatcher: confirmed{}, Sets: fixedSet{set}, Clock: func() engine.Millis { return now },
	})
	must.OK(t, err)
	verdicts := make(chan processor.Verdict, 100)
	flush := func(want processor.Outcome) {
		t.Helper()
		var batches []processor.Batch
		for user := range 50 {
			b := processor.Batch{User: fmt.Sprint(user)}
			for _, kind := range []notify.EventType{notify.Security, notify.Promo} {
				e := ledgertest.Event(b.User, kind, now)
				b.Deliveries = append(b.Deliveries, processor.Delivery{Event: e, Settler: processor.SettlerFunc(func(v processor.Verdict) { verdicts <- v })})
			}
			batches = append(batches, b)
		}
		p.Apply(ctx, batches)
		for range cap(verdicts) {
			if v := <-verdicts; v.Outcome != want {
				t.Fatalf("the verdict is %v, %v, want %v", v.Outcome, v.Err, want)
			}
		}
	}
	must.OK(t, l.Check(ctx)) // connected
	for i, want := range trips {
		now += 1000
		before := r.trips.Load()
		flush(processor.Decided)
		if n := r.trips.Load() - before; n != want {
			t.Errorf("flush %d took %d round trips, want %d", i, n, want)
		}
	}
	if p.Stats().Marked.Load() == 0 {
		t.Error("no dispatch was marked")
	}
	// On a day without a partition nothing is decided, and no event is dead: all wait.
	now = start + 400*day
	flush(processor.Unsettled)
	if users, err := l.Users(ctx); err != nil || users != 50 {
		t.Errorf("%d users, %v", users, err)
	}
	_, err = l.EnsurePartitions(ctx, now, 1)
	must.OK(t, err)
	flush(processor.Decided)
}
