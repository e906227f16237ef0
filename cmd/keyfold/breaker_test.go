package main

import (
	"fmt"
	"net/http"
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

// opened waits until the store's breaker is open, and checks what the worker
// says of it.
func (d *daemon) opened() {
	d.t.Helper()
	eventually(d.t, "the store's breaker opens", func() error {
		if n := d.metric(`keyfold_breaker_open{dependency="store"}`); n != 1 {
			return fmt.Errorf("open is %d\n%s", n, d.log)
		}
		return nil
	})
	code, body := d.get("/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "store: away since 20") {
		d.t.Errorf("readiness says %d %s", code, body)
	}
}

// A store that refuses every call opens the breaker: events stay in the queue,
// no attempt is used, and all is folded when it is back.
//
// Promise(away/store-breaker): The store's breaker opens after 3 failures in a row or 5 s of silence,
// also in an idle worker, and closes after one real majority write.
func TestStoreBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	store := mongotest.Start(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	d := s.work(t, quick, "--prefetch=50", "--retry-delay=20ms", "--max-retries=1").ready()
	bodies := sample.Events(sample.DefaultConfig(40))
	must.OK(t, store.RefuseConnections(0), store.Disconnect())
	s.publish(t, bodies[:20]...)
	d.opened()
	s.unsubscribed(t)
	s.publish(t, bodies[20:]...)
	time.Sleep(300 * time.Millisecond)
	if n := s.depth(t, rabbit.DefaultNames().Queue); n != len(bodies)-20 {
		t.Errorf("%d messages wait at the broker, want all %d that came later", n, len(bodies)-20)
	}
	must.OK(t, store.AcceptConnections())
	s.settled(t, s.expect(t, bodies))
	d.ready()
	if dead, retries := d.metric("keyfold_dead_letters_total"), d.metric("keyfold_retries_total"); dead != 0 || retries != 0 {
		t.Errorf("%d dead letters, %d retries, by the store's absence", dead, retries)
	}
	if n := d.metric(`keyfold_breaker_opened_total{dependency="store"}`); n != 1 {
		t.Errorf("opened %d times", n)
	}
	d.stop()
	s.emptied(t)
}

// A store that takes writes and never gets a majority answers pings: only a
// real write tells.
//
// Promise(away/store-breaker)
func TestStoreBreakerIsNotFooledByAPing(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	store := mongotest.Start(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	d := s.work(t, quick).ready()
	bodies := sample.Events(sample.DefaultConfig(20))
	must.OK(t, store.StallReplication())
	s.publish(t, bodies...)
	d.opened()
	before := d.metric(`keyfold_breaker_probes_total{dependency="store"}`)
	eventually(t, "it is probed in vain", func() error {
		if n := d.metric(`keyfold_breaker_probes_total{dependency="store"}`); n <= before {
			return fmt.Errorf("%d probes", n)
		}
		return nil
	})
	if n := d.metric(`keyfold_breaker_open{dependency="store"}`); n != 1 {
		t.Error("a store without a majority was taken for a working one")
	}
	must.OK(t, store.Replicate())
	s.settled(t, s.expect(t, bodies))
	d.ready() // a worker that stops while the breaker is open waits for nothing
	d.stop()
	s.emptied(t)
}

// Events held for longer than WORKER_HOLD_MAX go back to the broker, and come
// again when the store does.
//
// Promise(away/held-too-long): Events held for longer than WORKER_HOLD_MAX go back to the broker and
// come again when the store does.
// Promise(rabbitmq/consumer-timeout): A session ends before the broker's consumer_timeout; where that
// passes all the same, events come again and late verdicts are dropped.
func TestStoreBreakerGivesBackWhatIsHeldForTooLong(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	server := mongotest.StartProcess(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: server.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	d := s.work(t, quick, "--hold-max=2").ready()
	bodies := sample.Events(sample.DefaultConfig(60))
	half := len(bodies) / 2
	server.Kill()
	s.publish(t, bodies[:half]...)
	d.opened()
	eventually(t, "the broker has them again", func() error {
		if n := s.depth(t, rabbit.DefaultNames().Queue); n != half {
			return fmt.Errorf("%d messages are ready, want %d", n, half)
		}
		return nil
	})
	if n := d.metric("keyfold_held_events"); n != 0 {
		t.Errorf("%d events are held still", n)
	}
	s.publish(t, bodies[half:]...)
	server.Restart(t)
	s.settled(t, s.expect(t, bodies))
	d.ready()
	if n := d.metric("keyfold_dead_letters_total"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	d.stop()
	s.emptied(t)
}

// A store that answers and refuses every write of profiles (its writes blocked, a
// shard lost) is away, whatever its code: no attempt is used, readiness says so,
// and all is folded when it is back.
//
// Promise(away/refused-writes): A store that refuses every write, whatever the code, is away: judged
// by the share of failures and a probe; no attempt is used.
func TestStoreThatRefusesEveryWrite(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	store := mongotest.Start(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	d := s.work(t, quick, "--retry-delay=20ms", "--max-retries=1").ready()
	const userWritesBlocked = 371
	if _, err := store.Inject(mongotest.Fault{WriteError: userWritesBlocked, Namespace: "keyfold.user_embeddings"}); err != nil {
		t.Fatal(err)
	}
	bodies := sample.Events(sample.DefaultConfig(50))
	s.publish(t, bodies...)
	d.opened()
	probes := d.metric(`keyfold_breaker_probes_total{dependency="store"}`)
	eventually(t, "it is probed in vain", func() error {
		if n := d.metric(`keyfold_breaker_probes_total{dependency="store"}`); n < probes+3 {
			return fmt.Errorf("%d probes", n)
		}
		return nil
	})
	if n := d.metric(`keyfold_breaker_opened_total{dependency="store"}`); n != 1 {
		t.Errorf("opened %d times: a probe was taken that profiles are not", n)
	}
	must.OK(t, store.Remove(0))
	s.settled(t, s.expect(t, bodies))
	d.ready()
	if dead, retries := d.metric("keyfold_dead_letters_total"), d.metric("keyfold_retries_total"); dead != 0 || retries != 0 {
		t.Errorf("%d dead letters, %d retries, by the store's refusals", dead, retries)
	}
	d.stop()
	s.emptied(t)
}
