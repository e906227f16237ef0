package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// Workers join while others have windows open: no user's events are with two of them, so
// that no write meets another's. One that is killed costs nothing either: its partitions
// go to the others, and every profile is the oracle's.
func TestWorkersSharePartitions(t *testing.T) {
	t.Parallel()
	broker := rabbittest.SharedStreams(t, 4) // the one that the tests of streams start
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	if code, _, errs := s.run(t, "", "setup", "--partitions=8"); code != 0 {
		t.Fatalf("setup: %s", errs)
	}
	bodies := sample.Events(sample.DefaultConfig(150))
	third := len(bodies) / 3
	settings := []string{"--partitions=8", "--batch-window=2"}
	a, b := s.work(t, settings...).ready(), s.work(t, settings...).ready()
	shared(t, 8, a, b)
	s.publishBySlot(t, bodies[:third])
	c, kill := s.process(t, settings...) // while the windows of the first third are open
	shared(t, 8, a, b, c)
	s.publishBySlot(t, bodies[third:2*third])
	s.settled(t, s.expect(t, bodies[:2*third]))
	for _, d := range []*daemon{a, b, c} {
		if n := d.metric("keyfold_conflicts_total"); n != 0 {
			t.Errorf("%d conflicts", n)
		}
		if d.metric("keyfold_partition_moves_total") == 0 && d != c {
			t.Error("no partition has moved")
		}
	}
	s.publishBySlot(t, bodies[2*third:])
	kill()
	shared(t, 8, a, b)
	s.settled(t, s.expect(t, bodies))
}

// Classic queues of partitions are shared too. After the way back to one queue, events
// that are still published by slot and those of the one queue are all folded once.
func TestBackToOneQueue(t *testing.T) {
	t.Parallel()
	broker := rabbittest.SharedStreams(t, 4) // the one that the tests of streams start
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t, "--partitions=4", "--rabbitmq-queue-type=classic")
	bodies := sample.Events(sample.DefaultConfig(100))
	third := len(bodies) / 3
	settings := []string{"--partitions=4", "--rabbitmq-queue-type=classic", "--batch-window=2"}
	a, b := s.work(t, settings...).ready(), s.work(t, settings...).ready()
	shared(t, 4, a, b)
	s.publishBySlot(t, bodies[:third])
	s.settled(t, s.expect(t, bodies[:third]))
	if code, _, errs := s.run(t, "", "setup", "--partitions=0"); code != 0 {
		t.Fatalf("setup: %s", errs)
	}
	s.publishBySlot(t, bodies[third:2*third])
	s.publish(t, bodies[2*third:]...)
	s.work(t, "--batch-window=2").ready()
	s.settled(t, s.expect(t, bodies))
	if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// shared waits until workers have counted each other, and share all partitions.
func shared(t *testing.T, partitions int64, workers ...*daemon) {
	t.Helper()
	eventually(t, "the workers share the partitions", func() error {
		owned := int64(0)
		for _, d := range workers {
			if n := d.metric("keyfold_workers_seen"); n != int64(len(workers)) {
				return fmt.Errorf("a worker sees %d workers\n%s", n, d.log)
			}
			n := d.metric("keyfold_partitions_owned")
			if n < partitions/int64(len(workers)) {
				return fmt.Errorf("a worker has %d partitions", n)
			}
			owned += n
		}
		if owned != partitions {
			return fmt.Errorf("they have %d partitions", owned)
		}
		return nil
	})
}

// publishBySlot sends bodies as the relay does where there are partitions.
func (s *stack) publishBySlot(t *testing.T, bodies [][]byte) {
	t.Helper()
	p := rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "publisher", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer p.Close(ctx)
	messages := make([]rabbit.Message, len(bodies))
	for i, body := range bodies {
		e, err := profile.ParseEvent(body, time.Now())
		must.OK(t, err)
		messages[i] = rabbit.DefaultNames().SlotMessage(body, &e)
	}
	for _, err := range p.Publish(ctx, messages) {
		must.OK(t, err)
	}
}
