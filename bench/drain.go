package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/internal/settings"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// drainCmd drains the same preloaded queue in several ways.
type drainCmd struct {
	Events int      `default:"20000" help:"Events in the queue."`
	Users  int      `default:"2000" help:"Users they are spread over, few of them often."`
	Runs   int      `default:"3" help:"Runs of each way; the median counts."`
	Only   []string `sep:"none" help:"Ways to run, by name; default: all."`

	Broker   brokerFlag      `embed:""`
	Store    storeFlag       `embed:""`
	Settings settings.Engine `embed:""`
}

// variant is one way to drain the queue; it returns when all events are
// acknowledged.
type variant struct {
	name  string
	drain func(ctx context.Context, d *draining) error
}

var variants = []variant{
	{"bare consumer", bare},
	{"plain, one read and one write", plain},
	{"keyfold, batching off, memory", keyfoldWay(false, false)},
	{"keyfold, memory", keyfoldWay(true, false)},
	{"keyfold, batching off, store", keyfoldWay(false, true)},
	{"keyfold, store", keyfoldWay(true, true)},
}

// draining is one run of one way.
type draining struct {
	*stack.Stack
	config   settings.Config
	products shop
	queue    string
	events   int
	prefetch int
}

// Run measures every way and prints them side by side.
func (c *drainCmd) Run(ctx context.Context) error {
	config, err := c.Settings.Config()
	if err != nil {
		return err
	}
	config.Limit()
	products, err := shopVectors(config.Processor.Dimensions)
	if err != nil {
		return err
	}
	return onStack(ctx, c.Broker.RabbitMQ, c.Store.MongoDB, func(ctx context.Context, s *stack.Stack) error {
		if err := s.SetUp(ctx, sample.Products()); err != nil {
			return err
		}
		d := &draining{Stack: s, config: config, products: products, queue: rabbit.DefaultNames().Queue, events: c.Events, prefetch: config.Prefetch()}
		fmt.Fprintf(os.Stdout, "%d events of at most %d users, prefetch %d, medians of %d\n", d.events, c.Users, d.prefetch, c.Runs)
		return c.measure(ctx, d)
	})
}

func (c *drainCmd) measure(ctx context.Context, d *draining) error {
	var first sampleRun
	event := sampleEvents(c.Events/9, c.Users, false)
	for i, w := range variants {
		if len(c.Only) > 0 && !slices.Contains(c.Only, w.name) {
			continue
		}
		var runs []sampleRun
		for n := range c.Runs {
			// The ids are new each time, so that no store has seen them.
			l := newLoad(d.Stack, rate{}, fmt.Sprintf("%d-%d", i, n))
			l.event = event
			if err := l.preload(ctx, d.events); err != nil {
				return err
			}
			began, cpu := time.Now(), cpuTime()
			if err := w.drain(ctx, d); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			runs = append(runs, sampleRun{time.Since(began), cpuTime() - cpu})
		}
		middle := median(runs, func(r sampleRun) time.Duration { return r.took })
		if first.took == 0 {
			first = middle
		}
		middle.print(os.Stdout, w.name, d.events, first)
	}
	return nil
}

type sampleRun struct{ took, cpu time.Duration }

func (r sampleRun) print(w io.Writer, name string, events int, first sampleRun) {
	fmt.Fprintf(w, "%-32s %8.0f events/s  %6.3f ms CPU an event  %5.2f x the first's rate\n", name,
		float64(events)/r.took.Seconds(), r.cpu.Seconds()*1000/float64(events), first.took.Seconds()/r.took.Seconds())
}

// channel opens a consumer in the plainest way.
func (d *draining) channel() (*amqp.Connection, <-chan amqp.Delivery, error) {
	conn, err := amqp.Dial(d.DSN)
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(d.prefetch, 0, false)
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	deliveries, err := ch.Consume(d.queue, "", false, false, false, false, nil)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, deliveries, nil
}
