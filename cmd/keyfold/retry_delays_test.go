package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// A failed event comes back after 5, 10, 20, 40 and 60 s, each within 20 %: the
// soak waits for that, 135 s. Otherwise the delays are a hundredth, none is cut
// short, and how much longer one takes says more of the machine than of keyfold.
func TestRetryDelaysAtTheBroker(t *testing.T) {
	t.Parallel()
	first, soak := 50*time.Millisecond, os.Getenv("KEYFOLD_SOAK") != ""
	if soak {
		first = 5 * time.Second
	}
	const retries = 5
	broker := rabbittest.Shared(t)
	dsn, names, who := broker.DSN(broker.VHost(t)), rabbit.DefaultNames(), rabbit.ThisProcess("test")
	s := &stack{dsn: dsn}
	if err := rabbit.Setup(t.Context(), dsn, rabbit.Topology{Names: names, QueueType: rabbit.Classic, RetryDelays: rabbit.RetryDelays(first, retries)}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	delays := rabbit.NewDelayQueues(dsn, names, who, rabbit.Timing{}, log)
	publisher := rabbit.NewPublisher(dsn, who, "publisher", rabbit.Timing{}, log)
	consumer, err := rabbit.NewConsumer(rabbit.Config{
		DSN: dsn, Names: names, Identity: who, Prefetch: 10, MaxRetries: retries, RetryDelay: first,
	}, rabbit.Ports{DeadLetters: deadletter.Queue{Publisher: publisher, Names: names}, Retries: delays, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var arrivals []time.Time
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() {
		ran <- consumer.Run(ctx, rabbit.Events(func(_ context.Context, ds []engine.Delivery) error {
			for _, d := range ds {
				mu.Lock()
				arrivals = append(arrivals, time.Now())
				mu.Unlock()
				d.Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: errors.New("not yet")})
			}
			return nil
		}))
	}()
	s.publish(t, event(1, engine.ProductView, 1, time.Now().Add(-time.Hour), "late"))
	for deadline := time.Now().Add(5 * time.Minute); s.depth(t, names.DeadLetters) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not given up")
		}
	}
	stop()
	closing, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(<-ran, consumer.Close(closing), delays.Close(closing), publisher.Close(closing)); err != nil {
		t.Error(err)
	}
	want := rabbit.RetryDelays(first, retries)
	if len(arrivals) != 1+len(want) {
		t.Fatalf("%d deliveries, want %d", len(arrivals), 1+len(want))
	}
	for i, delay := range want {
		took := arrivals[i+1].Sub(arrivals[i])
		t.Logf("retry %d came after %v, due after %v", i+1, took.Round(time.Millisecond), delay)
		// The broker counts in whole milliseconds.
		if took < delay-2*time.Millisecond || soak && took > delay*6/5 {
			t.Errorf("retry %d came after %v, due after %v", i+1, took, delay)
		}
	}
}
