package mongodb

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
)

// The time of ids is the server's, whatever this machine's clock says, also when
// another server has become the primary.
//
// Promise(redelivery/wrong-clock)
func TestTheTimeIsTheServers(t *testing.T) {
	var offset atomic.Int64
	offset.Store(int64(-20 * time.Minute))
	server := standIn(t, "another time", mongotest.WithClock(func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }))
	s := openReady(t, settings(server.URI(), 4))
	off := func() time.Duration {
		now, err := s.Now(ctx)
		must.OK(t, err)
		return time.Until(now.Time()).Round(time.Minute)
	}
	if got := off(); got != -20*time.Minute {
		t.Errorf("%v beside this machine's clock, the server's is 20 minutes behind", got)
	}
	offset.Store(int64(5 * time.Minute))
	if got := off(); got != -20*time.Minute {
		t.Errorf("the server was asked again at once: %v", got)
	}
	s.clock.at = s.clock.at.Add(-2 * clockAge) // as if that time had passed
	if got := off(); got != 5*time.Minute {
		t.Errorf("%v beside this machine's clock, the server's is 5 minutes ahead by now", got)
	}
}

// A machine that slept, or whose clock was set, does not trust what it measured
// before.
func TestClockIsMeasuredAgainAfterAStep(t *testing.T) {
	c := newClock()
	c.at = time.Now()
	c.server = c.at
	if _, ok := c.now(c.at.Add(clockAge)); !ok {
		t.Error("an answer of ten seconds ago does not count")
	}
	if _, ok := c.now(c.at.Add(clockAge + 1)); ok {
		t.Error("an answer counts for longer than ten seconds")
	}
	if _, ok := newClock().now(c.at); ok {
		t.Error("a clock that was never measured tells the time")
	}
	stepped := time.Now().Round(0).Add(-2 * clockStep)
	if _, ok := c.now(stepped); ok {
		t.Error("a clock that was set back tells the time")
	}
}

func TestNowFailsWithTheServer(t *testing.T) {
	server, s := startStandIn(t, "its end", quick)
	must.OK(t, server.Close())
	if now, err := s.Now(ctx); err == nil || now != 0 {
		t.Errorf("%v, %v", now, err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Now(gone); err == nil || engine.KindOf(err) != engine.Transient {
		t.Errorf("%v", err)
	}
}
