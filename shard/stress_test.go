package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// Start and stop, many times, while others submit: what was taken is delivered,
// what was refused is not.
func TestConcurrentSubmitAndDrain(t *testing.T) {
	for round := range 150 {
		config := testConfig()
		config.Shards, config.MaxHeld, config.Flushes = 1+round%4, 64, 1+round%3
		config.Clock = Clock(round % 2)
		config.Batching = round%3 != 0
		stressOnce(t, config, time.Duration(round%10)*50*time.Microsecond)
	}
}

func stressOnce(t *testing.T, config Config, life time.Duration) {
	t.Helper()
	var taken, delivered atomic.Int64
	router, err := New(config, HashInt32, func(_ context.Context, batches []Batch[int32, int]) {
		for _, b := range batches {
			delivered.Add(int64(len(b.Items)))
		}
	})
	must.OK(t, err)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for n := 1; ; n++ {
				items := make([]Item[int32, int], 1+n%50)
				for i := range items {
					items[i] = Item[int32, int]{Key: int32(worker + i*n), Bytes: 100, At: time.Unix(int64(n), 0)}
				}
				if err := router.Submit(ctx, items); err != nil {
					if !errors.Is(err, ErrDraining) {
						t.Error(err)
					}
					return
				}
				taken.Add(int64(len(items)))
				router.Advance(time.Unix(int64(n), 1))
				_ = router.Stats()
			}
		})
	}
	time.Sleep(life)
	for range 2 {
		wg.Go(func() {
			if err := router.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := router.Stats(); taken.Load() != delivered.Load() || s.HeldItems != 0 || s.HeldBytes != 0 {
		t.Fatalf("%d items taken, %d delivered: %+v", taken.Load(), delivered.Load(), s)
	}
}

// Groups stay the reference's while submitter and actors really run at once.
func TestEventClockGroupsAtFullSpeed(t *testing.T) {
	config := testConfig()
	config.Clock, config.Shards, config.MaxHeld, config.MaxHeldBytes = EventClock, 3, 1<<20, 1<<40
	sequence := make([]Item[int32, int], 100_000)
	for i := range sequence {
		at := float64(i) + float64(i*i%7) // late ones too
		sequence[i] = Item[int32, int]{Key: int32(1 + i*i%11 + i%2), Value: i, At: eventTime(at)}
	}
	var mu sync.Mutex
	got := map[int32][]group{}
	router, err := New(config, HashInt32, func(_ context.Context, batches []Batch[int32, int]) {
		mu.Lock()
		defer mu.Unlock()
		for _, b := range batches {
			got[b.Key] = append(got[b.Key], group{slices.Clone(b.Items), b.Trigger})
		}
	})
	must.OK(t, err)
	for chunk := range slices.Chunk(sequence, 20) { // each moves the clock past a window
		must.OK(t, router.Submit(t.Context(), chunk))
	}
	must.OK(t, router.Drain(t.Context()))
	if fmt.Sprint(got) != fmt.Sprint(reference(config, sequence)) {
		t.Fatal("the groups are not the reference's")
	}
}

// The narrow case: the last item arrives while an actor decides that it is done.
func TestDrainOvertakesNoItem(t *testing.T) {
	for range 1000 {
		config := testConfig()
		var delivered atomic.Int64
		router, err := New(config, HashInt32, func(_ context.Context, batches []Batch[int32, int]) {
			delivered.Add(int64(len(batches)))
		})
		must.OK(t, err)
		taken, started := make(chan int64), make(chan struct{})
		go func() {
			close(started)
			var n int64
			for router.Submit(context.Background(), []Item[int32, int]{{Key: int32(n)}}) == nil {
				n++
			}
			taken <- n
		}()
		<-started
		must.OK(t, router.Drain(t.Context()))
		if n := <-taken; n != delivered.Load() {
			t.Fatalf("%d items taken, %d delivered", n, delivered.Load())
		}
	}
}

// Under the race detector: the handler owns its batches while it runs, the
// actor before and after.
func TestBatchesAreTheHandlersWhileItRuns(t *testing.T) {
	config := testConfig()
	config.Shards, config.MaxHeld, config.Window = 2, 256, time.Millisecond
	var wrong atomic.Int64
	router, err := New(config, HashString, func(_ context.Context, batches []Batch[string, *string]) {
		for _, b := range batches {
			for i, v := range b.Items {
				if *v != b.Key {
					wrong.Add(1)
				}
				b.Items[i] = nil
			}
		}
	})
	must.OK(t, err)
	for n := range 5000 {
		key := fmt.Sprint(n * n % 97)
		must.OK(t, router.Submit(t.Context(), []Item[string, *string]{{Key: key, Value: &key}}))
	}
	must.OK(t, router.Drain(t.Context()))
	if wrong.Load() != 0 {
		t.Fatalf("%d items under another key", wrong.Load())
	}
}
