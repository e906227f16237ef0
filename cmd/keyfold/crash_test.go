package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/source/sample"
)

// kills returns how often a worker is killed in one run of the test.
func kills() int {
	if long {
		return 200
	}
	return 5
}

// process starts `work` as a process of its own.
func (s *stack) process(t *testing.T, args ...string) (d *daemon, kill func()) {
	t.Helper()
	program, log := asProcess(append([]string{"work"}, s.flags(args...)...)...)
	program.Env = append(program.Env, s.env...)
	must.OK(t, program.Start())
	d = &daemon{t: t, log: log}
	d.ready()
	return d, func() {
		if err := program.Process.Kill(); err != nil {
			t.Fatalf("the worker had ended by itself: %s", log)
		}
		if err := program.Wait(); err == nil {
			t.Fatalf("the worker had ended by itself: %s", log)
		}
	}
}

// kill -9 of the worker, each time in the middle of open windows and flushes
// under way: at the end every profile is the oracle's and the queue is empty.
//
// Promise(away/worker-killed)
func TestKill9(t *testing.T) {
	s := newStack(t)
	bodies := sample.Events(sample.DefaultConfig(300))
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	kills := kills()
	redelivered := int64(0)
	for i := range kills {
		from, to := len(bodies)*i/kills, len(bodies)*(i+1)/kills
		d, kill := s.process(t, "--batch-window=0.5")
		s.publish(t, bodies[from:to]...)
		time.Sleep(time.Duration(r.IntN(800)) * time.Millisecond)
		redelivered += d.metric("keyfold_rabbitmq_redelivered_total")
		kill()
	}
	if redelivered == 0 {
		t.Error("no kill left anything to deliver again: the test proves nothing")
	}
	d := s.work(t, quick).ready()
	s.settled(t, s.expect(t, bodies))
	eventually(t, "all is acknowledged", func() error {
		if n := d.metric("keyfold_rabbitmq_unacked"); n != 0 {
			return fmt.Errorf("%d messages are not acknowledged", n)
		}
		return nil
	})
	t.Logf("%d kills; %d messages were delivered again", kills, redelivered)
	d.stop()
	s.emptied(t)
}

// A broker that dies in mid-window and comes back: the worker goes on by
// itself, what it held is delivered again, and nothing is folded twice. The short forms are the
// next test and TestIngestWhileTheBrokerIsAway, on this version.
//
// Promise(away/broker-dies): After the broker died the worker connects again by itself; nothing is
// lost or folded twice.
func TestBrokerRestartInMidWindow(t *testing.T) {
	if !long {
		t.Skip("it starts a broker twice: set KEYFOLD_SOAK=1")
	}
	t.Parallel()
	brokerKilled(t, rabbittest.Start(t), 1)
}

// The same with quorum queues on RabbitMQ 4, in the long form more than once.
//
// Promise(batching/connections): Windows know nothing of connections and outlive them.
// Promise(away/broker-dies)
func TestBrokerRestartInMidWindowOfQuorumQueues(t *testing.T) {
	t.Parallel()
	kills := 1
	if long {
		kills = 2
	}
	brokerKilled(t, rabbittest.StartVersion(t, 4), kills, "--rabbitmq-queue-type=quorum")
}

func brokerKilled(t *testing.T, broker *rabbittest.Broker, kills int, flags ...string) {
	s := &stack{dsn: broker.DSN("/"), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t, flags...)
	d := s.work(t, append(flags, "--batch-window=3")...).ready()
	bodies := sample.Events(sample.DefaultConfig(40))
	broker.Flush(t)
	for i := range kills {
		s.publish(t, bodies[len(bodies)*i/(kills+1):len(bodies)*(i+1)/(kills+1)]...)
		eventually(t, "windows are open", func() error {
			if n := d.metric("keyfold_open_windows"); n < 1 {
				return fmt.Errorf("%d open windows", n)
			}
			return nil
		})
		broker.Kill()
		broker.Restart(t)
		d.ready()
	}
	s.publish(t, bodies[len(bodies)*kills/(kills+1):]...)
	s.settled(t, s.expect(t, bodies))
	if n := d.metric("keyfold_rabbitmq_connects_total"); n < int64(kills)+1 {
		t.Errorf("%d connects after %d deaths of the broker: some were not noticed", n, kills)
	}
	d.stop()
	s.emptied(t)
}

// A store that is killed in mid-window and comes back with what it had
// acknowledged: events are held meanwhile, nothing is dead-lettered.
//
// Promise(away/memory)
func TestStoreKilledInMidWindow(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	server := mongotest.StartProcess(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: server.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	d := s.work(t, quick).ready()
	bodies := sample.Events(sample.DefaultConfig(60))
	third := len(bodies) / 3
	s.publish(t, bodies[:third]...)
	server.Kill()
	s.publish(t, bodies[third:2*third]...)
	eventually(t, "the store is missed", func() error {
		if n := d.metric("keyfold_store_failures_total"); n < 1 {
			return fmt.Errorf("%d failures", n)
		}
		return nil
	})
	d.opened() // not ready without a store
	server.Restart(t)
	s.publish(t, bodies[2*third:]...)
	s.settled(t, s.expect(t, bodies))
	if n := d.metric("keyfold_dead_letters_total"); n != 0 {
		t.Errorf("%d events were dead-lettered by the store's absence", n)
	}
	d.stop()
	s.emptied(t)
}
