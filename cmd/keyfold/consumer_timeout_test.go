package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// The store is away for longer than a worker holds messages. One that holds them for less
// than the broker lets it gives all back, and the broker has nothing to object to; one that
// holds them for more loses its channel and says why. Either way all is folded once when
// the store is back.
//
// Promise(rabbitmq/consumer-timeout)
func TestStoreAwayPastTheConsumerTimeout(t *testing.T) {
	t.Parallel()
	t.Run("hold 1", func(t *testing.T) {
		t.Parallel()
		awayWhileHeld(t, rabbittest.Shared(t), "1", false)
	})
	t.Run("hold 60", func(t *testing.T) {
		t.Parallel()
		awayWhileHeld(t, rabbittest.StartImpatient(t, 16*time.Second), "60", true)
	})
}

// awayWhileHeld has a worker hold messages while the store is away, until the broker has
// them again: it closes the worker's channel, or the worker gives them back.
func awayWhileHeld(t *testing.T, broker *rabbittest.Broker, hold string, closes bool) {
	t.Helper()
	store := mongotest.Start(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	d := s.work(t, quick, "--hold-max="+hold).ready()
	bodies := sample.Events(sample.DefaultConfig(60))
	must.OK(t, store.RefuseConnections(0), store.Disconnect())
	s.publish(t, bodies...)
	d.opened()
	eventually(t, "the broker has them again", func() error {
		if n := s.depth(t, rabbit.DefaultNames().Queue); n != len(bodies) {
			return fmt.Errorf("%d messages are ready, want %d", n, len(bodies))
		}
		return nil
	})
	if closed := strings.Contains(d.log.String(), "consumer_timeout"); closed != closes {
		t.Errorf("the broker closed a channel: %v\n%s", closed, d.log)
	}
	must.OK(t, store.AcceptConnections())
	s.settled(t, s.expect(t, bodies))
	d.ready()
	if dead, retries := d.metric("keyfold_dead_letters_total"), d.metric("keyfold_retries_total"); dead != 0 || retries != 0 {
		t.Errorf("%d dead letters, %d retries", dead, retries)
	}
	// What was held is folded at once; the broker's second deliveries of
	// it may still be on their way.
	eventually(t, "all is acknowledged", func() error {
		if ready, open := s.depth(t, rabbit.DefaultNames().Queue), d.metric("keyfold_rabbitmq_unacked"); ready+int(open) != 0 {
			return fmt.Errorf("%d messages are ready, %d are not acknowledged", ready, open)
		}
		return nil
	})
	d.stop()
	s.emptied(t)
}
