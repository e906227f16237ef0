package shard

import (
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// Advance moves the event clock of every shard to t without an item, so that a test sees
// the windows of quiet keys close. Items submitted later count as no older than t.
func (r *Router[K, V]) Advance(t time.Time) {
	if r.config.Clock != EventClock {
		return
	}
	r.gate.Lock()
	defer r.gate.Unlock()
	r.clock = max(r.clock, nanos(t))
	for _, a := range r.actors {
		a.mail.mu.Lock()
		a.mail.incoming.clock = r.clock
		a.mail.mu.Unlock()
		a.mail.signal()
	}
}

func eventConfig() Config {
	config := testConfig()
	config.Clock = EventClock
	return config
}

func TestEventClockClosesBeforeTheItemThatMovedIt(t *testing.T) {
	inBubble(t, eventConfig(), func(t *testing.T, r rig) {
		r.at("u", "a", 0)
		r.at("u", "b", 4.999999999)
		r.expect()
		r.at("u", "c", 9.999999999) // exactly 5 s after b
		r.expect(seen{"u", "ab", TriggerIdle, 0})
		time.Sleep(time.Hour) // the process's time means nothing
		r.expect()
		r.router.Advance(eventTime(14.999999998))
		r.expect()
		r.router.Advance(eventTime(14.999999999))
		r.expect(seen{"u", "c", TriggerIdle, time.Hour})
	})
}

func TestEventClockNeverRunsBackwards(t *testing.T) {
	inBubble(t, eventConfig(), func(t *testing.T, r rig) {
		r.at("u", "a", 10)
		r.at("u", "b", 2) // counts as 10
		r.router.Advance(eventTime(1))
		r.router.Advance(time.Time{})
		must.OK(t, r.router.Submit(t.Context(), []Item[string, string]{{Key: "u", Value: "c"}}))
		r.router.Advance(eventTime(14.9))
		r.expect()
		r.at("v", "x", 15) // another key moves the clock as well
		r.expect(seen{"u", "abc", TriggerIdle, 0})
	})
}

func TestEventClockMaxDelay(t *testing.T) {
	config := eventConfig()
	config.MaxSize = 100
	inBubble(t, config, func(t *testing.T, r rig) {
		for s := range 16 {
			r.at("u", "a", float64(s))
		}
		r.expect(seen{"u", "aaaaaaaaaaaaaaa", TriggerMaxDelay, 0}) // 0..14, and 15 opened the next
	})
}

func TestEventClockSealsClosedWindows(t *testing.T) {
	inBubble(t, eventConfig(), func(t *testing.T, r rig) {
		r.hold = make(chan struct{})
		r.at("u", "a", 0)
		r.router.Advance(eventTime(5))
		r.expect(seen{"u", "a", TriggerIdle, 0})
		r.at("u", "b", 5)
		r.router.Advance(eventTime(10)) // closed, its key busy
		r.at("u", "c", 10)              // so c does not join it
		r.router.Advance(eventTime(15))
		r.hold <- struct{}{}
		r.expect(seen{"u", "b", TriggerIdle, 0})
		r.hold <- struct{}{}
		r.expect(seen{"u", "c", TriggerIdle, 0})
	})
}

func TestEventClockWithoutBatchingGroupsNothing(t *testing.T) {
	config := eventConfig()
	config.Batching = false
	inBubble(t, config, func(t *testing.T, r rig) {
		r.submit("u", "abc")
		r.expect(seen{"u", "a", TriggerImmediate, 0}, seen{"u", "b", TriggerImmediate, 0}, seen{"u", "c", TriggerImmediate, 0})
	})
}

func TestAdvanceReachesQuietShardsAndWallClockIgnoresIt(t *testing.T) {
	config := eventConfig()
	config.Shards = 8
	inBubble(t, config, func(t *testing.T, r rig) {
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			r.at(key, "x", 0)
		}
		r.router.Advance(eventTime(5))
		if got := r.take(); len(got) != 8 {
			t.Fatalf("%d windows closed, want 8", len(got))
		}
	})
	inBubble(t, testConfig(), func(t *testing.T, r rig) {
		r.submit("u", "a")
		r.router.Advance(time.Now().Add(time.Hour))
		r.expect()
	})
}

func TestNanosStaysInsideItsHorizon(t *testing.T) {
	for _, tt := range []struct {
		at   time.Time
		want int64
	}{
		{time.Time{}, -horizon},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), horizon},
		{time.Unix(1, 2), 1e9 + 2},
	} {
		if got := nanos(tt.at); got != tt.want {
			t.Errorf("nanos(%v) = %d, want %d", tt.at, got, tt.want)
		}
	}
	p := newPolicy(Config{Window: MaxSpan, MaxDelay: MaxSpan, Batching: true})
	if p.idleDeadline(horizon) < horizon || p.delayDeadline(horizon) == never {
		t.Error("a deadline overflows")
	}
}
