package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/rabbit/topology"
)

// waits are the queues in which the deliveries of one event have waited.
type waits struct {
	consume.Chunk
	mu     *sync.Mutex
	queues *[]string
}

func (w waits) Add(o *rabbit.Original, a consume.Arrival) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if deaths, _ := o.Headers[rabbit.HeaderDeath].([]any); len(deaths) > 0 {
		last, _ := deaths[0].(amqp.Table)
		queue, _ := last["queue"].(string)
		*w.queues = append(*w.queues, queue)
	}
	return w.Chunk.Add(o, a)
}

// A failed event waits in the queues of 5, 10, 20, 40 and 60 s, in this order, and the broker
// is told that they last so long. Here the delays that it waits for are a hundredth.
//
// Promise(rabbitmq/delay-queues): Each retry delay has a queue of its own, since messages expire at a
// queue's head only.
// Promise(event/retry-delays)
func TestRetryDelaysAtTheBroker(t *testing.T) {
	t.Parallel()
	const first, hundredth, retries = 5 * time.Second, 50 * time.Millisecond, 5
	broker := rabbittest.Shared(t)
	vhost, names, who := broker.VHost(t), rabbit.DefaultNames(), rabbit.ThisProcess("test")
	dsn := broker.DSN(vhost)
	delays := slices.Concat(rabbit.RetryDelays(hundredth, retries), rabbit.RetryDelays(first, retries))
	must.OK(t, topology.Setup(t.Context(), dsn, topology.Config{Names: names, QueueType: topology.Classic, RetryDelays: delays}))
	for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute} {
		var queue struct {
			Arguments struct {
				TTL int64 `json:"x-message-ttl"`
			}
		}
		name := names.RetryQueue(delays[retries+i])
		if err := broker.Manage(t.Context(), "GET", "queues/"+url.PathEscape(vhost)+"/"+name, nil, &queue); err != nil || queue.Arguments.TTL != want.Milliseconds() {
			t.Errorf("%s: %v, %+v, want %v", name, err, queue, want)
		}
	}
	var want []string
	for _, delay := range delays[:retries] {
		want = append(want, names.RetryQueue(delay))
	}
	if met := retried(t, dsn, consume.Config{DSN: dsn, Names: names, Identity: who, Prefetch: 10, MaxRetries: retries, RetryDelay: hundredth}); !slices.Equal(met, want) {
		t.Errorf("it waited in %q, want %q", met, want)
	}
}

// retried returns the queues in which an event waits that fails until it is given up.
func retried(t *testing.T, dsn string, config consume.Config) (queues []string) {
	t.Helper()
	s, log := &stack{dsn: dsn}, slog.New(slog.DiscardHandler)
	delays := consume.NewDelayQueues(dsn, config.Names, config.Identity, rabbit.Timing{}, log)
	publisher := rabbit.NewPublisher(dsn, config.Identity, "publisher", rabbit.Timing{}, log)
	consumer, err := consume.New(config, consume.Ports{DeadLetters: deadletter.Queue{Publisher: publisher, Names: config.Names}, Retries: delays, Log: log})
	must.OK(t, err)
	chunks := consume.Events(func(_ context.Context, ds []profile.Delivery) error {
		for _, d := range ds {
			d.Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: errors.New("not yet")})
		}
		return nil
	})
	var mu sync.Mutex
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- consumer.Run(ctx, func() consume.Chunk { return waits{chunks(), &mu, &queues} }) }()
	s.publish(t, event(1, profile.ProductView, 1, time.Now().Add(-time.Hour), "late"))
	eventually(t, "it is given up", func() error {
		if s.depth(t, config.Names.DeadLetters) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	stop()
	closing, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(<-ran, consumer.Close(closing), delays.Close(closing), publisher.Close(closing)); err != nil {
		t.Error(err)
	}
	return queues
}
