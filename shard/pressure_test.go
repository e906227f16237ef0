package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/internal/testserver/must"
)

// Promise(batching/rate)
func TestPressureThresholds(t *testing.T) {
	p := pressure{limit: usage{100, 1000}, shards: 2}
	for _, tt := range []struct {
		waiting, demand usage
		want            bool
	}{
		{usage{74, 749}, usage{}, false},
		{usage{75, 0}, usage{}, true},
		{usage{1, 750}, usage{}, true},
		{usage{74, 0}, usage{26, 0}, false}, // it fits once the flushes are done
		{usage{74, 0}, usage{27, 0}, true},
		{usage{10, 500}, usage{1, 501}, true},
		{usage{0, 0}, usage{200, 0}, false}, // nothing to close
		{usage{1, 0}, usage{200, 0}, true},
	} {
		if got := p.high(tt.waiting, tt.demand); got != tt.want {
			t.Errorf("high(%v, %v) = %v", tt.waiting, tt.demand, got)
		}
	}
	for _, tt := range []struct{ demand, want usage }{
		{usage{}, usage{25, 250}},
		{usage{50, 1}, usage{25, 250}},
		{usage{80, 900}, usage{10, 50}},
		{usage{300, 0}, usage{}},
		{usage{1, 1001}, usage{}},
	} {
		if got := p.keep(tt.demand); got != tt.want {
			t.Errorf("keep(%v) = %v, want %v", tt.demand, got, tt.want)
		}
	}
	for limit := int64(1); limit < 10; limit++ {
		p := pressure{limit: usage{limit, 1 << 40}, shards: 1}
		if !p.high(usage{limit, 0}, usage{}) {
			t.Errorf("a full budget of %d is no pressure", limit)
		}
	}
}

// Promise(bounds/held)
func TestPressureClosesTheOldestFirstDownToOneHalf(t *testing.T) {
	config := testConfig()
	config.MaxHeld, config.MaxSize = 20, 100
	for _, clock := range []Clock{WallClock, EventClock} {
		config.Clock = clock
		inBubble(t, config, func(t *testing.T, r rig) {
			for i := range 7 { // a..g, two items each: 14 of 20
				r.submit(string(rune('a'+i)), "xx")
				time.Sleep(time.Millisecond)
			}
			r.expect()
			r.submit("a", "x") // the 15th reaches three quarters; a is the oldest by first item
			got := r.take()
			var keys string
			for _, b := range got {
				keys += b.Key
				if b.Trigger != TriggerPressure {
					t.Errorf("%+v: want pressure", b)
				}
			}
			if keys != "ab" { // 3 + 2 of 15: 10 are left, which is one half
				t.Fatalf("closed %q", keys)
			}
			if s := r.router.Stats(); s.WaitingItems != 10 || s.Closed[TriggerPressure] != 2 {
				t.Fatalf("stats: %+v", s)
			}
		})
	}
}

// Promise(bounds/held)
func TestPressureOfBytes(t *testing.T) {
	config := testConfig()
	config.MaxHeldBytes = 100
	inBubble(t, config, func(t *testing.T, r rig) {
		put := func(key string, bytes int) {
			must.OK(t, r.router.Submit(t.Context(), []Item[string, string]{{Key: key, Value: "x", Bytes: bytes}}))
		}
		put("a", 40)
		put("b", 34)
		put("c", -5) // counts as nothing
		r.expect()
		put("d", 1)
		r.expect(seen{"a", "x", TriggerPressure, 0})
		if s := r.router.Stats(); s.WaitingBytes != 35 || s.HeldBytes != 35 {
			t.Fatalf("stats: %+v", s)
		}
	})
}

func TestPressureWakesQuietShards(t *testing.T) {
	config := testConfig()
	config.Shards, config.MaxHeld, config.MaxSize = 2, 40, 100
	inBubble(t, config, func(t *testing.T, r rig) {
		quiet, busy := keyOf(0, 2), keyOf(1, 2)
		for i := range 14 { // more than its share's half (10)
			r.submit(quiet(i), "x")
		}
		for i := range 16 { // the last reaches 30 of 40
			r.expect()
			r.submit(busy(i), "x")
		}
		got := r.take()
		if len(got) != 10 { // 4 of the quiet shard, 6 of the busy one
			t.Fatalf("%d windows closed: %+v", len(got), got)
		}
		if s := r.router.Stats(); s.WaitingItems != 20 {
			t.Fatalf("waiting %d, want 20", s.WaitingItems)
		}
	})
}

// keyOf returns a function that names the n-th key of a shard.
func keyOf(shard, shards int) func(n int) string {
	r := &Router[string, string]{hash: HashString, actors: make([]*actor[string, string], shards)}
	return func(n int) string {
		for i := 0; ; i++ {
			key := fmt.Sprint("key", i)
			var c byShard
			r.split(&c, []Item[string, string]{{Key: key}})
			if c.first[shard] == end {
				continue
			}
			if n == 0 {
				return key
			}
			n--
		}
	}
}

func TestSubmitBlocksOnTheBudgetAndResumes(t *testing.T) {
	config := testConfig()
	config.MaxHeld, config.MaxSize, config.FlushKeys = 4, 1, 1 // every item is a flush
	inBubble(t, config, func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		for _, key := range []string{"a", "b", "c", "d"} {
			r.submit(key, "1")
		}
		r.take()
		entered := make(chan error, 1)
		go func() {
			entered <- r.router.Submit(t.Context(), []Item[string, string]{{Key: "e", Value: "1"}})
		}()
		time.Sleep(time.Hour)
		select {
		case err := <-entered:
			t.Fatalf("a full budget let it in: %v", err)
		default:
		}
		r.hold <- struct{}{} // one flush returns
		must.OK(t, <-entered)
		r.expect(seen{"e", "1", TriggerMaxSize, time.Hour})
	})
}

func TestSubmitThatGivesUpTookNothing(t *testing.T) {
	config := testConfig()
	config.MaxHeld, config.MaxSize, config.FlushKeys = 4, 1, 1 // every item is a flush
	inBubble(t, config, func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		for _, key := range []string{"a", "b", "c", "d"} {
			r.submit(key, "1")
		}
		r.take()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.router.Submit(ctx, []Item[string, string]{{Key: "e"}, {Key: "f"}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v", err)
		}
		if err := r.router.Submit(ctx, []Item[string, string]{{Key: "g"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("an ended context: %v", err)
		}
		if held := r.router.Stats().HeldItems; held != 4 {
			t.Fatalf("held %d, want 4", held)
		}
		for range 4 {
			r.hold <- struct{}{}
		}
		r.expect()
	})
}

// A chunk that needs more room than pressure alone would make must not wait for
// windows that nobody will close.
func TestLargeChunksCannotDeadlock(t *testing.T) {
	config := eventConfig() // where no timer would help
	config.MaxHeld, config.MaxSize = 100, 1000
	for _, size := range []int{27, 60, 100, 350} {
		inBubble(t, config, func(t *testing.T, r rig) {
			for i := range 74 {
				r.submit(fmt.Sprint(i), "x")
			}
			chunk := make([]Item[string, string], size)
			for i := range chunk {
				chunk[i].Key = fmt.Sprint("chunk", i)
			}
			must.OK(t, r.router.Submit(t.Context(), chunk))
		})
	}
}

func TestBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{limit: usage{10, 100}, onDemand: func() {}}
		var order []int
		ask := func(id int, ctx context.Context, items int64) {
			go func() {
				if b.acquire(ctx, usage{items, 0}) == nil {
					order = append(order, id)
				}
			}()
			synctest.Wait()
		}
		ask(0, t.Context(), 8)
		short, cancel := context.WithCancel(t.Context())
		ask(1, short, 10)
		ask(2, t.Context(), 2)
		ask(3, t.Context(), 1)
		if got := fmt.Sprint(order); got != "[0]" {
			t.Fatalf("a small chunk overtook: %v", got)
		}
		if demand := b.demand.load(); demand.items != 10 {
			t.Fatalf("demand %+v", demand)
		}
		cancel() // frees the way for 2; 3 still has no room
		synctest.Wait()
		if got := fmt.Sprint(order); got != "[0 2]" {
			t.Fatal(got)
		}
		b.release(usage{8, 0})
		synctest.Wait()
		if got := fmt.Sprint(order, b.usage()); got != "[0 2 3] {3 0}" {
			t.Fatal(got)
		}
	})
}

// Windows close at three quarters of what may come to be held, where the source may bring
// less than the budget has room for; also when that shrinks and nothing is submitted.
//
// Promise(batching/prefetch)
func TestPressureGoesByTheRoom(t *testing.T) {
	config := testConfig()
	config.MaxHeld, config.MaxSize = 1000, 100
	var room atomic.Int64
	var unknown atomic.Bool
	room.Store(20)
	config.Room = func() (int, bool) { return int(room.Load()), !unknown.Load() }
	inBubble(t, config, func(t *testing.T, r rig) {
		for i := range 14 { // of 20
			room.Add(-1)
			r.submit(string(rune('a'+i)), "x")
		}
		r.expect()
		room.Add(-1) // the 15th
		r.submit("o", "x")
		if got := r.take(); len(got) != 5 { // 10 are left
			t.Fatalf("%d closed", len(got))
		}
		room.Store(0)
		unknown.Store(true) // a pause: windows run their time
		r.router.Relieve()
		r.expect()
		unknown.Store(false) // it is over, and nothing comes until less is held, here never
		r.router.Relieve()
		if got := r.take(); len(got) != 10 {
			t.Fatalf("%d closed", len(got))
		}
	})
}
