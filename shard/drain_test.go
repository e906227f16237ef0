package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/internal/testserver/must"
)

// Promise(batching/drain): At shutdown every window closes at once.
// Promise(shutdown/in-order)
func TestDrainClosesEveryWindowAtOnce(t *testing.T) {
	for _, clock := range []Clock{WallClock, EventClock} {
		config := testConfig()
		config.Clock, config.Shards = clock, 3
		synctest.Test(t, func(t *testing.T) {
			rec := &recorder{start: time.Now()}
			router, err := New(config, HashString, rec.handle)
			must.OK(t, err)
			r := rig{rec, t, router}
			for i := range 50 {
				r.submit(fmt.Sprint(i), "x")
			}
			must.OK(t, router.Drain(t.Context()))
			got := r.take()
			if len(got) != 50 || got[0].Trigger != TriggerDrain || got[49].At != 0 {
				t.Fatalf("%d batches: %+v", len(got), got)
			}
			err = router.Submit(t.Context(), []Item[string, string]{{Key: "late"}})
			if !errors.Is(err, ErrDraining) {
				t.Fatalf("after Drain: %v", err)
			}
			if err := router.Drain(t.Context()); err != nil {
				t.Fatalf("again: %v", err)
			}
			router.Advance(time.Now())
		})
	}
}

func TestDrainRefusesWhoWaitsForRoom(t *testing.T) {
	config := testConfig()
	config.MaxHeld, config.MaxSize = 1, 1
	inBubble(t, config, func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		r.submit("a", "x")
		r.take()
		refused := make(chan error, 1)
		go func() { refused <- r.router.Submit(t.Context(), []Item[string, string]{{Key: "b"}}) }()
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- r.router.Drain(t.Context()) }()
		if err := <-refused; !errors.Is(err, ErrDraining) {
			t.Fatalf("err = %v", err)
		}
		r.hold <- struct{}{}
		must.OK(t, <-drained)
	})
}

// obstinate is a router whose handler waits: for its context where it listens,
// and in any case until release is closed.
func obstinate(t *testing.T, listens bool) (router *Router[string, string], release chan struct{}) {
	t.Helper()
	config := testConfig()
	config.MaxSize, config.Flushes = 2, 1
	release = make(chan struct{})
	router, err := New(config, HashString, func(ctx context.Context, _ []Batch[string, string]) {
		if listens {
			<-ctx.Done()
		} else {
			<-release
		}
	})
	must.OK(t, err)
	rig{t: t, router: router}.submit("in flight", "xx")
	synctest.Wait()
	rig{t: t, router: router}.submit("ready", "xx")
	rig{t: t, router: router}.submit("open", "x")
	return router, release
}

func TestDrainDeadlineInterruptsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router, _ := obstinate(t, true)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := router.Drain(ctx)
		left, ok := errors.AsType[*DrainError](err)
		if !ok || left.Unsettled != 3 || left.Interrupted != 2 || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
		if !strings.Contains(err.Error(), "3 items unsettled and 2 in interrupted handlers") {
			t.Error(err)
		}
		if again := router.Drain(t.Context()); !errors.Is(again, context.DeadlineExceeded) {
			t.Errorf("again: %v", again)
		}
	})
}

// Promise(shutdown/in-time)
func TestDrainLeavesAHandlerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router, release := obstinate(t, false)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := router.Drain(ctx)
		if left, ok := errors.AsType[*DrainError](err); !ok || left.Unsettled != 5 || left.Interrupted != 0 {
			t.Fatalf("err = %v", err)
		}
		if took := time.Since(start); took != 10*time.Second+interruptGrace {
			t.Errorf("took %v", took)
		}
		close(release) // and its goroutines end with it
	})
}

func TestHandlerPanicStopsTheRouter(t *testing.T) {
	for name, misbehave := range map[string]func(){
		"panic":  func() { panic("torn batch") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testMisbehaviour(t, misbehave) })
		})
	}
}

func testMisbehaviour(t *testing.T, misbehave func()) {
	config := testConfig()
	config.MaxHeld, config.MaxSize = 12, 2
	calm := make(chan struct{})
	var flushed []string
	router, err := New(config, HashString, func(_ context.Context, batches []Batch[string, string]) {
		switch batches[0].Key {
		case "calm":
			<-calm
		case "bad":
			misbehave()
		}
		flushed = append(flushed, batches[0].Key)
	})
	must.OK(t, err)
	r := rig{t: t, router: router}
	r.submit("calm", "xx")
	r.submit("open", "x")
	synctest.Wait()
	if router.Err() != nil {
		t.Fatal(router.Err())
	}
	blocked := make(chan error, 1)
	r.submit("bad", "xx")
	<-router.Failed()
	go func() { blocked <- router.Submit(t.Context(), make([]Item[string, string], 10)) }()
	if err := <-blocked; err == nil || !errors.Is(err, router.Err()) {
		t.Fatalf("Submit: %v", err)
	}
	time.Sleep(time.Hour) // no window is flushed any more
	close(calm)           // what runs may finish
	synctest.Wait()
	if fmt.Sprint(flushed) != "[calm]" {
		t.Fatalf("flushed %v", flushed)
	}
	err = router.Drain(t.Context())
	left, ok := errors.AsType[*DrainError](err)
	if !ok || left.Unsettled != 3 || !errors.Is(err, router.Err()) {
		t.Fatalf("Drain: %v", err)
	}
	text := err.Error()
	if !strings.Contains(text, "Goexit") && (!strings.Contains(text, "torn batch") || !strings.Contains(text, "testMisbehaviour")) {
		t.Fatalf("no cause and stack in %q", text)
	}
}

func TestFailureReachesWhoWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testConfig()
		config.MaxHeld, config.MaxSize = 1, 1
		router, err := New(config, HashString, func(context.Context, []Batch[string, string]) {
			time.Sleep(time.Second)
			panic("late")
		})
		must.OK(t, err)
		rig{t: t, router: router}.submit("a", "x")
		if err := router.Submit(t.Context(), []Item[string, string]{{Key: "b"}}); err == nil || !errors.Is(err, router.Err()) {
			t.Fatalf("Submit: %v", err)
		}
		if err := router.Drain(t.Context()); !errors.Is(err, router.Err()) {
			t.Fatal(err)
		}
	})
}

func TestKeyThatCannotBeHashedIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router, err := New(testConfig(), func(any) uint64 { return 0 }, func(context.Context, []Batch[any, int]) {})
		must.OK(t, err)
		must.OK(t, router.Submit(t.Context(), []Item[any, int]{{Key: []int{1}}}))
		<-router.Failed()
		if err := router.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "actor panicked") {
			t.Fatal(err)
		}
	})
}
