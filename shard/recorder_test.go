package shard

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/internal/testserver/must"
)

// seen is a batch as a handler got it.
type seen struct {
	Key     string
	Values  string // the items' values, joined
	Trigger Trigger
	At      time.Duration // since the recorder was made
}

// recorder is a handler that remembers, and that can be made to wait.
type recorder struct {
	start time.Time
	// hold, where it is set, is received from before a flush returns.
	hold chan struct{}

	mu      sync.Mutex
	batches []seen
	flushes int
}

func (r *recorder) handle(_ context.Context, batches []Batch[string, string]) {
	r.mu.Lock()
	r.flushes++
	for _, b := range batches {
		r.batches = append(r.batches, seen{
			Key: b.Key, Values: strings.Join(b.Items, ""), Trigger: b.Trigger, At: time.Since(r.start),
		})
	}
	r.mu.Unlock()
	if r.hold != nil {
		<-r.hold
	}
}

// take returns what came since the last take, once every goroutine is idle.
func (r *recorder) take() []seen {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.batches
	r.batches = nil
	return got
}

// testConfig is one shard with a window of 5 s, at most 15 s and 4 items.
func testConfig() Config {
	return Config{
		Shards: 1, Window: 5 * time.Second, MaxDelay: 15 * time.Second, MaxSize: 4, Batching: true,
		MaxHeld: 1000, MaxHeldBytes: 1 << 20, Flushes: 4, FlushKeys: 256, FlushItems: 2048,
	}
}

// rig is a router with its recorder, inside a synctest bubble.
type rig struct {
	*recorder
	t      *testing.T
	router *Router[string, string]
}

// inBubble runs body with a router of config under synthetic time, and drains it.
func inBubble(t *testing.T, config Config, body func(*testing.T, rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{start: time.Now()}
		router, err := New(config, HashString, rec.handle)
		must.OK(t, err)
		r := rig{rec, t, router}
		defer r.drain() // also where body gives up: a bubble must be left empty
		body(t, r)
	})
}

// drain ends the router and looks for what was left over.
func (r rig) drain() {
	if r.hold != nil {
		close(r.hold)
	}
	if err := r.router.Drain(r.t.Context()); err != nil {
		r.t.Errorf("Drain: %v", err)
	}
	s := r.router.Stats()
	if s.HeldItems != 0 || s.HeldBytes != 0 || s.OpenWindows != 0 || s.WaitingItems != 0 || s.WaitingBytes != 0 || s.Running != 0 {
		r.t.Errorf("left over: %+v", s)
	}
}

// submit sends one item per letter of values.
func (r rig) submit(key, values string) {
	r.t.Helper()
	var items []Item[string, string]
	for _, v := range values {
		items = append(items, Item[string, string]{Key: key, Value: string(v), Bytes: 1})
	}
	if err := r.router.Submit(r.t.Context(), items); err != nil {
		r.t.Fatalf("Submit: %v", err)
	}
}

// at sends one item with a time on the event clock, in seconds.
func (r rig) at(key, value string, seconds float64) {
	r.t.Helper()
	item := Item[string, string]{Key: key, Value: value, At: eventTime(seconds)}
	if err := r.router.Submit(r.t.Context(), []Item[string, string]{item}); err != nil {
		r.t.Fatalf("Submit: %v", err)
	}
}

func eventTime(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// expect compares what came since the last take.
func (r rig) expect(want ...seen) {
	r.t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		r.t.Fatalf("batches:\n got %+v\nwant %+v", got, want)
	}
}
