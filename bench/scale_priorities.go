package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	workload "keyfold/bench/notify"
	rabbittest "keyfold/bench/testserver/rabbitmq"
)

// prioritiesCmd publishes, consumes and acknowledges through a classic queue without and
// with priorities, in turn.
type prioritiesCmd struct {
	Messages int  `default:"50000" help:"Messages of a run."`
	Bytes    int  `default:"300" help:"Of a message's body."`
	Waiting  bool `help:"Publish all messages before the first is consumed."`
	Runs     int  `default:"5" help:"Runs without and with priorities, in turn; the medians count."`

	outputFlag `embed:""`
}

// priorityReport is what prioritiesCmd prints: microseconds of the broker's processor
// time per message.
type priorityReport struct {
	Messages int     `json:"messages"`
	Runs     int     `json:"runs"`
	Without  float64 `json:"without_us"`
	With     float64 `json:"with_us"`
	Ratio    float64 `json:"ratio"`
}

// Run measures and prints.
func (c *prioritiesCmd) Run(ctx context.Context) (err error) {
	return onBroker(func(b *rabbittest.Broker) error {
		conn, err := amqp.Dial(b.DSN("/"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, conn.Close()) }()
		without, with, err := inTurn(c.Runs, func(_ int, priorities bool) (time.Duration, error) { return c.pass(ctx, b, conn, priorities) })
		if err != nil {
			return err
		}
		each := func(runs []time.Duration) float64 {
			return float64(median(runs, func(d time.Duration) time.Duration { return d }).Microseconds()) / float64(c.Messages)
		}
		r := priorityReport{Messages: c.Messages, Runs: c.Runs, Without: each(without), With: each(with)}
		r.Ratio = r.With / r.Without
		return c.emit(r, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, `classic queue, %d messages published, consumed and acknowledged, medians of %d
without x-max-priority  %.1f µs of the broker's processor time a message
with x-max-priority     %.1f µs, %.2f times
`, r.Messages, r.Runs, r.Without, r.With, r.Ratio)
			return err
		})
	})
}

// onBroker runs a broker of RabbitMQ 4 meanwhile.
func onBroker(work func(*rabbittest.Broker) error) error {
	dir, err := os.MkdirTemp("", "keyfold-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := rabbittest.LaunchVersion(dir, 4)
	if err != nil {
		return err
	}
	defer b.Stop()
	return work(b)
}

// pass has messages pass through a new queue, and returns what the broker used for them.
func (c *prioritiesCmd) pass(ctx context.Context, b *rabbittest.Broker, conn *amqp.Connection, priorities bool) (used time.Duration, err error) {
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ch.Close()) }()
	arguments := amqp.Table{"x-queue-type": "classic"}
	if priorities {
		arguments["x-max-priority"] = int32(10)
	}
	const queue = "bench-priorities"
	if _, err := ch.QueueDeclare(queue, true, false, false, false, arguments); err != nil {
		return 0, err
	}
	defer func() { _, deleted := ch.QueueDelete(queue, false, false, false); err = errors.Join(err, deleted) }()
	before, err := workload.ProcessorTime(b.PID())
	if err != nil {
		return 0, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	published := make(chan struct{})
	go func() {
		defer close(published)
		if err := c.publish(ctx, conn, queue); err != nil {
			fail(err)
		}
	}()
	if c.Waiting {
		<-published
	}
	err = c.consume(ctx, ch, queue)
	fail(err)
	<-published
	if err != nil {
		return 0, err
	}
	after, err := workload.ProcessorTime(b.PID())
	return after - before, err
}

// publish publishes the messages, persistent and in the middle of the priorities as
// keyfold's events are, and awaits their confirms.
func (c *prioritiesCmd) publish(ctx context.Context, conn *amqp.Connection, queue string) (err error) {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ch.Close()) }()
	if err := ch.Confirm(false); err != nil {
		return err
	}
	const unconfirmed = 1000
	var waiting []*amqp.DeferredConfirmation
	body := make([]byte, c.Bytes)
	for range c.Messages {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Priority: 5, Body: body})
		if err != nil {
			return err
		}
		if waiting = append(waiting, confirm); len(waiting) == unconfirmed {
			if _, err := waiting[0].WaitContext(ctx); err != nil {
				return err
			}
			waiting = waiting[1:]
		}
	}
	for _, confirm := range waiting {
		if _, err := confirm.WaitContext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// consume takes and acknowledges the messages.
func (c *prioritiesCmd) consume(ctx context.Context, ch *amqp.Channel, queue string) error {
	if err := ch.Qos(4096, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for range c.Messages {
		select {
		case d, open := <-deliveries:
			if !open {
				return errors.New("the broker has cancelled the consumer")
			}
			if err := d.Ack(false); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
