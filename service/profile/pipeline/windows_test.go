package pipeline_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/proof/queue"
	"keyfold/shard"
	"keyfold/source/sample"
)

// 100,000 users in their windows at once, whole events as a shop sends them: the
// process keeps less than 256 MiB beside the profile cache, and the held bytes
// stay in their budget. Then all of them are folded. Outside the soak it is a fifth of
// the users, and of the memory.
//
// Promise(bounds/windows): 100,000 open windows take under 256 MiB beside the profile cache.
// Figure: 65 MiB; a fifth of the users in `make test`, all in `make test-long`
func TestLimit_100000OpenWindows(t *testing.T) {
	users, most := 20_000, int64(256<<20)/5
	if soak() {
		users, most = 100_000, 256<<20
	}
	j := newJob(t, sample.Products(), 16)
	j.windows.Clock, j.windows.Window, j.windows.MaxDelay = shard.WallClock, time.Hour, time.Hour
	j.windows.MaxHeld, j.windows.MaxHeldBytes = 2*users, most/2
	j.laws.CacheBytes = 0 // what the cache holds comes on top
	before := inUse()
	p := j.start(t)
	q := queue.NewQueue()
	ran := make(chan error, 1)
	go func() { ran <- q.Run(context.Background(), 256, p.Deliver) }()
	for from := 0; from < users; from += 1000 {
		q.Publish(visits(t, from, 1000)...)
	}
	q.Close()
	for deadline := time.Now().Add(time.Minute); p.Router.Stats().OpenWindows < users; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d windows are open, want %d", p.Router.Stats().OpenWindows, users)
		}
	}
	s := p.Router.Stats()
	if held := inUse() - before; held > most {
		t.Errorf("%d MiB for %d windows, want at most %d", held>>20, users, most>>20)
	} else {
		t.Logf("%d open windows: %d MiB in use, %d MiB reckoned as held", s.OpenWindows, held>>20, s.HeldBytes>>20)
	}
	if s.HeldItems != users || s.HeldBytes > j.windows.MaxHeldBytes {
		t.Errorf("%d events of %d bytes are held", s.HeldItems, s.HeldBytes)
	}
	must.OK(t, p.Router.Drain(context.Background()))
	must.OK(t, <-ran)
	if n := q.Count(engine.Folded); n != int64(users) {
		t.Errorf("%d folded, want %d", n, users)
	}
}

// More events than the budget of bytes has room for: what is held never exceeds
// it, and windows close early for it.
//
// Promise(bounds/held): Events held never exceed the budget of bytes, bodies counted; at 75 % the
// oldest windows close early.
func TestLimit_ByteBudgetHeld(t *testing.T) {
	const events = 20_000 // three times what the budget has room for
	j := newJob(t, sample.Products(), 16)
	j.windows.Clock, j.windows.Window, j.windows.MaxDelay = shard.WallClock, time.Hour, time.Hour
	j.windows.MaxHeld, j.windows.MaxHeldBytes = events, 4<<20
	p := j.start(t)
	q := queue.NewQueue()
	most := int64(0)
	for from := 0; from < events; from += 1000 {
		q.Publish(visits(t, from, 1000)...)
	}
	q.Close()
	left := events
	drained := make(chan error, 1)
	err := q.Run(context.Background(), 256, func(ctx context.Context, ds []profile.Delivery) error {
		err := p.Deliver(ctx, ds)
		most = max(most, p.Router.Stats().HeldBytes)
		if left -= len(ds); left == 0 {
			go func() { drained <- p.Router.Drain(context.Background()) }()
		}
		return err
	})
	must.OK(t, err)
	must.OK(t, <-drained)
	if most > j.windows.MaxHeldBytes || most < j.windows.MaxHeldBytes/4 {
		t.Errorf("at most %d bytes were held, the budget is %d", most, j.windows.MaxHeldBytes)
	}
	if n := q.Count(engine.Folded); n != events {
		t.Errorf("%d folded, want %d", n, events)
	}
}

// weighty counts the bytes of deliveries that have no verdict.
type weighty struct {
	held  *atomic.Int64
	bytes int64
}

func (w weighty) Settle(engine.Verdict) { w.held.Add(-w.bytes) }

// What the source keeps for a delivery, its body above all, counts: bodies of 60
// KiB never hold more than the budget, counted here and not by the router.
//
// Promise(bounds/held)
func TestLimit_BodiesCount(t *testing.T) {
	const (
		events = 1500
		body   = 60 << 10
		budget = 16 << 20
	)
	j := newJob(t, sample.Products(), 16)
	j.windows.Clock, j.windows.Window, j.windows.MaxDelay = shard.WallClock, time.Hour, time.Hour
	j.windows.MaxHeld, j.windows.MaxHeldBytes = events, budget
	p := j.start(t)
	var held atomic.Int64
	for i, e := range visits(t, 0, events) {
		d := profile.Delivery{Event: e, Bytes: body, Settler: weighty{&held, body}}
		held.Add(body)
		must.OK(t, p.Deliver(t.Context(), []profile.Delivery{d}))
		// The last one was let in as it fits, and what was settled for it is no
		// longer counted here.
		if n := held.Load(); n > budget {
			t.Fatalf("after %d events %d bytes of bodies are held, the budget is %d", i+1, n, budget)
		}
	}
	must.OK(t, p.Router.Drain(context.Background()))
	if n := held.Load(); n != 0 {
		t.Errorf("%d bytes have no verdict", n)
	}
}

// visits are events of n users from an id on, with ids of their own.
func visits(t *testing.T, from, n int) []profile.Event {
	t.Helper()
	events := make([]profile.Event, n)
	for i := range events {
		user := from + i + 1
		body := fmt.Appendf(nil, `{"user_id":%d,"event_type":"search","search_phrase":"wireless headphones for the %dth visitor","product_id":null,`+
			`"occurred_at":"2026-02-10T14:30:00+00:00","metadata":{"device":"mobile"},"message_id":"%064x","version":"1.0"}`, user, user%50, user)
		var err error
		if events[i], err = profile.ParseEvent(body, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

// inUse is what the process has in use after a collection: objects, and what
// lies between them and in stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // pools keep for one round
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
