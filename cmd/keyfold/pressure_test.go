package main

import (
	"fmt"
	"testing"
	"time"

	"keyfold/engine/profile"
)

// A window never waits for deliveries that the prefetch forbids: with windows of
// an hour, a backlog far above the prefetch drains all the same.
//
// Promise(batching/rate): The bound of rate by prefetch and window is logged at start; under pressure
// windows close early.
func TestWindowsDoNotWaitForThePrefetch(t *testing.T) {
	s := newStack(t)
	const events = 300
	bodies := make([][]byte, events)
	for i := range bodies {
		bodies[i] = event(int32(1+i%500), profile.ProductView, 1, time.Now().Add(-time.Minute), fmt.Sprint("event ", i))
	}
	s.publish(t, bodies...)
	const prefetch = 48
	d := s.work(t, "--batch-window=3600", "--batch-max-delay=3600", fmt.Sprint("--prefetch=", prefetch)).ready()
	eventually(t, "all but what the last windows hold is folded", func() error {
		if n := d.metric(`keyfold_events_total{outcome="folded"}`); n < events-prefetch {
			return fmt.Errorf("%d of %d events are folded", n, events)
		}
		return nil
	})
	d.stop() // what it was sent last may go back
	s.work(t, quick)
	s.settled(t, s.expect(t, bodies))
}
