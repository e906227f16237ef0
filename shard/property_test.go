package shard

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"keyfold/internal/testserver/must"
)

// auditor is a handler that holds a router to its promises while it runs.
type auditor struct {
	config Config
	delay  time.Duration // a flush takes up to this long

	mu      sync.Mutex
	busy    map[int32]bool
	running int
	got     map[int32][]int // values by key, in the order of their delivery
	faults  []string
}

func (a *auditor) handle(_ context.Context, batches []Batch[int32, int]) {
	items := a.enter(batches)
	time.Sleep(a.delay * time.Duration(items%4) / 4)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	for _, b := range batches {
		delete(a.busy, b.Key)
	}
}

func (a *auditor) enter(batches []Batch[int32, int]) (items int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fault := func(format string, args ...any) { a.faults = append(a.faults, fmt.Sprintf(format, args...)) }
	a.running++
	for _, b := range batches {
		if a.busy[b.Key] {
			fault("key %d is in two flushes", b.Key)
		}
		a.busy[b.Key] = true
		if len(b.Items) == 0 || len(b.Items) > a.config.MaxSize {
			fault("batch of %d items", len(b.Items))
		}
		if b.Trigger == 0 || b.Trigger >= triggers {
			fault("trigger %d", b.Trigger)
		}
		a.got[b.Key] = append(a.got[b.Key], b.Items...)
		items += len(b.Items)
	}
	if a.running > a.config.Flushes {
		fault("%d flushes at once", a.running)
	}
	if len(batches) > a.config.FlushKeys || len(batches) > 1 && items > a.config.FlushItems {
		fault("flush of %d keys and %d items", len(batches), items)
	}
	return items
}

// bubble is a test inside a synctest bubble, where nobody may ask for its
// deadline.
type bubble struct{ testing.TB }

// step is one thing a submitter does.
type step struct {
	items  []Item[int32, int]
	closes int32 // CloseWhere with the keys that it divides; 0: none
	pause  time.Duration
}

const submitters = 2

// drawSteps draws what one submitter does to keys of its own.
func drawSteps(t *rapid.T, submitter int32) []step {
	next := map[int32]int{}
	var steps []step
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		s := step{pause: time.Duration(rapid.IntRange(0, 4000).Draw(t, "pause")) * time.Millisecond}
		for range rapid.IntRange(0, 8).Draw(t, "chunk") {
			key := submitter + submitters*int32(rapid.IntRange(0, 5).Draw(t, "key"))
			s.items = append(s.items, Item[int32, int]{
				Key: key, Value: next[key], Bytes: rapid.IntRange(0, 30).Draw(t, "bytes"),
				At: eventTime(float64(rapid.IntRange(0, 60).Draw(t, "at"))),
			})
			next[key]++
		}
		s.closes = int32(rapid.IntRange(0, 3).Draw(t, "closes"))
		steps = append(steps, s)
	}
	return steps
}

func drawConfig(t *rapid.T) Config {
	window := rapid.IntRange(1, 5).Draw(t, "window")
	return Config{
		Shards:       rapid.IntRange(1, 4).Draw(t, "shards"),
		Window:       time.Duration(window) * time.Second,
		MaxDelay:     time.Duration(window+rapid.IntRange(0, 10).Draw(t, "delay")) * time.Second,
		MaxSize:      rapid.IntRange(1, 6).Draw(t, "size"),
		Batching:     rapid.Bool().Draw(t, "batching"),
		MaxHeld:      rapid.IntRange(1, 40).Draw(t, "held"),
		MaxHeldBytes: int64(rapid.IntRange(1, 400).Draw(t, "bytes")),
		Flushes:      rapid.IntRange(1, 4).Draw(t, "flushes"),
		FlushKeys:    rapid.IntRange(1, 4).Draw(t, "keys"),
		FlushItems:   rapid.IntRange(1, 10).Draw(t, "items"),
		Clock:        rapid.SampledFrom([]Clock{WallClock, EventClock}).Draw(t, "clock"),
	}
}

// Whatever the schedule and the sizes: each item once, in order per key, no key
// in two flushes, every bound kept; and no Submit hangs.
func TestEveryItemOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(t *rapid.T) {
			config := drawConfig(t)
			audit := &auditor{config: config, busy: map[int32]bool{}, got: map[int32][]int{}}
			audit.delay = time.Duration(rapid.IntRange(0, 20).Draw(t, "handler")) * time.Second
			var schedules [submitters][]step
			for i := range schedules {
				schedules[i] = drawSteps(t, int32(i))
			}
			router, err := New(config, HashInt32, audit.handle)
			must.OK(t, err)
			var wg sync.WaitGroup
			for _, steps := range schedules {
				wg.Go(func() { play(router, steps) })
			}
			wg.Wait()
			must.OK(t, router.Drain(context.Background()))
			audit.check(t, schedules)
			if s := router.Stats(); s.HeldItems != 0 || s.HeldBytes != 0 || s.WaitingItems != 0 || s.OpenWindows != 0 {
				t.Fatalf("left over: %+v", s)
			}
		})
	})
}

func play(router *Router[int32, int], steps []step) {
	for _, s := range steps {
		if err := router.Submit(context.Background(), s.items); err != nil {
			panic(err)
		}
		if s.closes > 0 {
			router.CloseWhere(func(key int32) bool { return key%s.closes == 0 })
		}
		clear(s.items) // the slice is the caller's again
		time.Sleep(s.pause)
	}
}

func (a *auditor) check(t *rapid.T, schedules [submitters][]step) {
	if len(a.faults) > 0 {
		t.Fatalf("%q", a.faults)
	}
	var submitted, delivered int
	for _, steps := range schedules {
		for _, s := range steps {
			submitted += len(s.items)
		}
	}
	for key, values := range a.got {
		delivered += len(values)
		for i, v := range values {
			if v != i {
				t.Fatalf("key %d got %v", key, values)
			}
		}
	}
	if submitted != delivered {
		t.Fatalf("%d items in, %d out", submitted, delivered)
	}
}

// group is a batch of the reference.
type group struct {
	values  []int
	trigger Trigger
}

// reference groups a sequence by the definition of a window: no shards, no
// lists, no chunks. An item without a key stands for a call of Advance.
func reference(c Config, sequence []Item[int32, int]) map[int32][]group {
	type window struct {
		group
		first, last int64
	}
	groups, open := map[int32][]group{}, map[int32]*window{}
	now := int64(-horizon)
	shut := func(key int32, trigger Trigger) {
		open[key].trigger = trigger
		groups[key] = append(groups[key], open[key].group)
		delete(open, key)
	}
	expire := func(key int32) {
		w := open[key]
		if w == nil {
			return
		}
		idle, delay := w.last+int64(c.Window), w.first+int64(c.MaxDelay)
		if now >= min(idle, delay) {
			shut(key, map[bool]Trigger{true: TriggerIdle, false: TriggerMaxDelay}[idle <= delay])
		}
	}
	for _, item := range sequence {
		now = max(now, nanos(item.At))
		if item.Key == 0 {
			continue
		}
		expire(item.Key)
		if open[item.Key] == nil {
			open[item.Key] = &window{first: now}
		}
		w := open[item.Key]
		w.values, w.last = append(w.values, item.Value), now
		switch {
		case !c.Batching:
			shut(item.Key, TriggerImmediate)
		case len(w.values) == c.MaxSize:
			shut(item.Key, TriggerMaxSize)
		}
	}
	for key := range open {
		if expire(key); open[key] != nil {
			shut(key, TriggerDrain)
		}
	}
	return groups
}

// On the event clock the groups are a function of the sequence: the reference's,
// whatever the shards, the chunks and the handler's speed.
func TestEventClockGroupsEqualTheReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(t *rapid.T) {
			config := drawConfig(t)
			config.Clock, config.MaxHeld, config.MaxHeldBytes = EventClock, 10_000, 1<<20
			sequence := drawSequence(t)
			want := reference(config, sequence)
			for _, shards := range []int{1, 3, 8} {
				config.Shards = shards
				pause := time.Duration(rapid.IntRange(0, 9).Draw(t, "handler")) * time.Second
				got := replay(t, config, sequence, pause)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%d shards:\n got %v\nwant %v", shards, got, want)
				}
			}
		})
	})
}

func drawSequence(t *rapid.T) []Item[int32, int] {
	var sequence []Item[int32, int]
	now := 100
	for i := range rapid.IntRange(1, 80).Draw(t, "items") {
		now += rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3, 8, -5}).Draw(t, "pass") // late ones too
		sequence = append(sequence, Item[int32, int]{
			Key: int32(rapid.IntRange(0, 9).Draw(t, "key")), Value: i, At: eventTime(float64(now)),
		})
	}
	return sequence
}

// replay sends the sequence in random chunks and returns the groups by key.
func replay(t *rapid.T, config Config, sequence []Item[int32, int], pause time.Duration) map[int32][]group {
	var mu sync.Mutex
	groups := map[int32][]group{}
	router, err := New(config, HashInt32, func(_ context.Context, batches []Batch[int32, int]) {
		mu.Lock()
		for _, b := range batches {
			groups[b.Key] = append(groups[b.Key], group{slices.Clone(b.Items), b.Trigger})
		}
		mu.Unlock()
		time.Sleep(pause)
	})
	must.OK(t, err)
	for len(sequence) > 0 {
		if sequence[0].Key == 0 {
			router.Advance(sequence[0].At)
			sequence = sequence[1:]
			continue
		}
		n := rapid.IntRange(1, 10).Draw(t, "chunk")
		if i := slices.IndexFunc(sequence, func(i Item[int32, int]) bool { return i.Key == 0 }); i >= 0 {
			n = min(n, i)
		}
		n = min(n, len(sequence))
		must.OK(t, router.Submit(context.Background(), sequence[:n]))
		sequence = sequence[n:]
		if rapid.Bool().Draw(t, "rest") {
			time.Sleep(time.Second)
		}
	}
	must.OK(t, router.Drain(context.Background()))
	if n := router.Stats().Closed[TriggerPressure]; n != 0 {
		t.Fatalf("%d windows closed by pressure", n)
	}
	return groups
}
