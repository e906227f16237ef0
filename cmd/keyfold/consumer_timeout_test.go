package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mongotest "keyfold/bench/testserver/mongodb"
	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// The store is away for longer than the broker lets a message be held. A worker
// that holds for less gives all back before, and the broker has nothing to
// object to; one that holds for more loses its channel and says why. Either way
// all is folded once when the store is back.
func TestStoreAwayPastTheConsumerTimeout(t *testing.T) {
	t.Parallel()
	// 5 s of silence open the breaker, a second is held, and the probe that is
	// under way then takes 5 s at most.
	const timeout = 16 * time.Second
	broker := rabbittest.StartImpatient(t, timeout)
	t.Run("tests", func(t *testing.T) { // ends with both of them; they mostly wait
		for _, x := range []struct {
			hold   string
			closes bool
		}{{"1", false}, {"60", true}} {
			t.Run("hold "+x.hold, func(t *testing.T) {
				t.Parallel()
				store := mongotest.Start(t)
				s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: engine.Mass}
				s.setUp(t)
				d := s.work(t, quick, "--hold-max="+x.hold).ready()
				bodies := sample.Events(sample.DefaultConfig(60))
				must(t, store.RefuseConnections(0), store.Disconnect())
				published := time.Now()
				s.publish(t, bodies...)
				d.opened()
				closed := func() bool { return strings.Contains(d.log.String(), "consumer_timeout") }
				if x.closes {
					eventually(t, "the broker closes the channel", func() error {
						if !closed() {
							return errors.New("it does not")
						}
						return nil
					})
				} else {
					time.Sleep(time.Until(published.Add(timeout + 3*time.Second))) // it looks every second
				}
				eventually(t, "the broker has them again", func() error {
					if n := s.depth(t, rabbit.DefaultNames().Queue); n != len(bodies) {
						return fmt.Errorf("%d messages are ready, want %d", n, len(bodies))
					}
					return nil
				})
				if closed() != x.closes {
					t.Errorf("the broker closed a channel: %v\n%s", closed(), d.log)
				}
				must(t, store.AcceptConnections())
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
			})
		}
	})
}
