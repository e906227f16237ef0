package shard

import (
	"context"
	"fmt"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

const tick = time.Nanosecond

func TestIdleWindowClosesExactlyAtItsDeadline(t *testing.T) {
	inBubble(t, testConfig(), func(t *testing.T, r rig) {
		r.submit("u", "a")
		time.Sleep(5*time.Second - tick)
		r.expect()
		time.Sleep(tick)
		r.expect(seen{"u", "a", TriggerIdle, 5 * time.Second})
	})
}

// Promise(batching/windows): Each user has a window of its own.
func TestEachItemRestartsTheWindow(t *testing.T) {
	inBubble(t, testConfig(), func(t *testing.T, r rig) {
		r.submit("u", "a")
		time.Sleep(3 * time.Second)
		r.submit("u", "b")
		r.submit("v", "x") // another key does not disturb it
		time.Sleep(5*time.Second - tick)
		r.expect()
		time.Sleep(tick)
		r.expect(
			seen{"u", "ab", TriggerIdle, 8 * time.Second},
			seen{"v", "x", TriggerIdle, 8 * time.Second},
		)
	})
}

// What has waited already waits for no window: it goes at once, or with the
// others of its key, which it does not keep waiting.
//
// Promise(event/retry-delays)
func TestPromptItemsDoNotWait(t *testing.T) {
	inBubble(t, testConfig(), func(t *testing.T, r rig) {
		prompt := func(key, value string) {
			must.OK(t, r.router.Submit(t.Context(), []Item[string, string]{{Key: key, Value: value, Prompt: true}}))
		}
		prompt("u", "r")
		r.expect(seen{"u", "r", TriggerImmediate, 0})
		r.submit("v", "a")
		time.Sleep(3 * time.Second)
		prompt("v", "r")
		r.expect()
		time.Sleep(2 * time.Second)
		r.expect(seen{"v", "ar", TriggerIdle, 5 * time.Second})
	})
}

// Promise(batching/windows)
func TestMaxDelayCapsABusyKey(t *testing.T) {
	config := testConfig()
	config.MaxSize = 100
	inBubble(t, config, func(t *testing.T, r rig) {
		for range 15 { // at 0 s .. 14 s
			r.expect()
			r.submit("u", "a")
			time.Sleep(time.Second)
		}
		r.expect(seen{"u", "aaaaaaaaaaaaaaa", TriggerMaxDelay, 15 * time.Second})
	})
	inBubble(t, config, func(t *testing.T, r rig) {
		for range 5 {
			r.submit("u", "a")
			time.Sleep(3*time.Second - tick)
		}
		time.Sleep(4 * tick)
		r.expect()
		time.Sleep(tick)
		r.expect(seen{"u", "aaaaa", TriggerMaxDelay, 15 * time.Second})
	})
}

func TestMaxSizeClosesAtOnceAndNoBatchExceedsIt(t *testing.T) {
	inBubble(t, testConfig(), func(t *testing.T, r rig) {
		r.submit("u", "abc")
		r.expect()
		r.submit("u", "d")
		r.expect(seen{"u", "abcd", TriggerMaxSize, 0})
		r.submit("u", "efghijklm")
		got := r.take()
		want := []seen{{"u", "efgh", TriggerMaxSize, 0}, {"u", "ijkl", TriggerMaxSize, 0}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %+v", got)
		}
		time.Sleep(5 * time.Second)
		r.expect(seen{"u", "m", TriggerIdle, 5 * time.Second})
	})
}

func TestBatchingOffFlushesAtOnceOneFlushPerKey(t *testing.T) {
	config := testConfig()
	config.Batching = false
	inBubble(t, config, func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		r.submit("u", "a")
		r.expect(seen{"u", "a", TriggerImmediate, 0})
		r.submit("u", "b") // collects behind the flush that holds the key
		r.submit("v", "x") // another key does not wait for it
		r.submit("u", "cdef")
		r.expect(seen{"v", "x", TriggerImmediate, 0})
		r.hold <- struct{}{} // u's first or v's: release both
		r.hold <- struct{}{}
		r.expect(seen{"u", "bcde", TriggerImmediate, 0})
		r.hold <- struct{}{}
		r.expect(seen{"u", "f", TriggerImmediate, 0})
	})
}

// Promise(away/busy-user)
func TestKeyInFlightGoesOnCollecting(t *testing.T) {
	inBubble(t, testConfig(), func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		r.submit("u", "abcd")
		r.expect(seen{"u", "abcd", TriggerMaxSize, 0})
		r.submit("u", "e")
		time.Sleep(6 * time.Second) // its window has run out, its key is busy
		r.submit("u", "f")          // and joins it
		time.Sleep(20 * time.Second)
		r.expect()
		r.submit("u", "ghijkl") // fills it; the rest opens the one behind
		r.expect()
		r.hold <- struct{}{}
		r.expect(seen{"u", "efgh", TriggerIdle, 26 * time.Second})
		r.hold <- struct{}{}
		r.expect(seen{"u", "ijkl", TriggerMaxSize, 26 * time.Second})
	})
}

func TestTokensBoundFlushesAndWaitingWindowsGrow(t *testing.T) {
	config := testConfig()
	config.Flushes, config.Shards = 2, 1
	inBubble(t, config, func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		r.submit("a", "1234")
		r.take()
		r.submit("b", "1234")
		r.take()
		r.submit("c", "1")
		r.submit("d", "1")
		time.Sleep(5 * time.Second)
		r.expect() // both tokens are out
		if running := r.router.Stats().Running; running != 2 {
			t.Fatalf("%d flushes run, want 2", running)
		}
		r.submit("c", "2") // the actor takes items meanwhile
		r.hold <- struct{}{}
		r.expect(seen{"c", "12", TriggerIdle, 5 * time.Second}, seen{"d", "1", TriggerIdle, 5 * time.Second})
		if s := r.router.Stats(); s.Flushes != 1 || s.KeysPerFlush() != 1 {
			t.Fatalf("stats: %+v", s)
		}
	})
}

func TestFlushesAreBoundedInKeysAndItems(t *testing.T) {
	config := testConfig()
	config.FlushKeys, config.FlushItems, config.Flushes = 3, 4, 1
	inBubble(t, config, func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		r.submit("first", "1234") // takes the only token
		r.take()
		for _, key := range []string{"a", "b", "c", "d"} {
			r.submit(key, "1")
		}
		r.submit("e", "12")
		r.submit("f", "123")
		time.Sleep(5 * time.Second)
		for _, want := range []int{3, 2, 1} { // a b c; d e (f would be the 6th item); f
			r.hold <- struct{}{}
			if got := r.take(); len(got) != want {
				t.Fatalf("flush of %d keys, want %d: %+v", len(got), want, got)
			}
		}
	})
}

func TestWindowLargerThanFlushItemsStillGoes(t *testing.T) {
	config := testConfig()
	config.FlushItems = 2
	inBubble(t, config, func(t *testing.T, r rig) {
		r.submit("u", "abcd")
		r.expect(seen{"u", "abcd", TriggerMaxSize, 0})
	})
}

func TestOneShardLeavesTokensToTheOthers(t *testing.T) {
	config := testConfig()
	config.Shards, config.Flushes = 4, 8
	if share := config.maxFlushesPerShard(); share != 3 {
		t.Fatalf("share %d, want 8/4+1", share)
	}
	config.Flushes = 2
	if share := config.maxFlushesPerShard(); share != 2 {
		t.Fatalf("share %d, want no more than there are", share)
	}
}

func TestSlowShardLeavesATokenToTheOthers(t *testing.T) {
	config := testConfig()
	config.Shards, config.Flushes, config.FlushKeys, config.MaxSize = 2, 4, 1, 1 // a share is 3
	inBubble(t, config, func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		slow, other := keyOf(0, 2), keyOf(1, 2)
		for i := range 4 {
			r.submit(slow(i), "x")
		}
		if got := r.take(); len(got) != 3 {
			t.Fatalf("%d flushes of one shard, want 3", len(got))
		}
		r.submit(other(0), "y")
		r.expect(seen{other(0), "y", TriggerMaxSize, 0})
	})
}

func TestHandlerMayReorderAndAppend(t *testing.T) {
	config := testConfig()
	config.MaxSize = 3
	var got []string
	router, err := New(config, HashString, func(_ context.Context, batches []Batch[string, string]) {
		for i := range batches {
			b := &batches[i]
			b.Items[0], b.Items[1] = b.Items[1], b.Items[0]
			b.Items = append(b.Items, "more")
			got = append(got, b.Items...)
			b.Items = nil
		}
	})
	must.OK(t, err)
	r := rig{t: t, router: router}
	r.submit("u", "abc")
	must.OK(t, router.Drain(t.Context()))
	if fmt.Sprint(got) != "[b a c more]" {
		t.Fatal(got)
	}
}
