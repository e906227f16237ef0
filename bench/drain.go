package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/internal/report"
	"keyfold/internal/settings"
	"keyfold/proof/stack"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
)

// drainCmd drains the same preloaded queue in several ways.
type drainCmd struct {
	Count int      `default:"20000" help:"Events in the queue."`
	Users int      `default:"2000" help:"Users they are spread over, few of them often."`
	Runs  int      `default:"3" help:"Runs of each way; the median counts."`
	Only  []string `sep:"none" help:"Ways to run, by name; default: all."`

	Broker   brokerFlag      `embed:""`
	Store    storeFlag       `embed:""`
	Log      logFlag         `embed:""`
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
	{"keyfold, batching off, memory", keyfoldWay(false, "")},
	{"keyfold, memory", keyfoldWay(true, "")},
	{"keyfold, batching off, store", keyfoldWay(false, mongodb.Array)},
	{"keyfold, store", keyfoldWay(true, mongodb.Array)},
	{"keyfold, store, binary vectors", keyfoldWay(true, mongodb.Binary)},
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

// Run measures every way.
func (c *drainCmd) Run(ctx context.Context, r *report.Report) error {
	config, err := c.Settings.Config()
	if err != nil {
		return err
	}
	config.Limit()
	bodies, products, err := c.Log.bodies(r, func() [][]byte { return sampleBodies(c.Count/9, c.Users) })
	if err != nil {
		return err
	}
	vectors, err := shopVectors(products, config.Processor.Dimensions)
	if err != nil {
		return err
	}
	return onStack(ctx, r, c.Broker.RabbitMQ, c.Store.MongoDB, func(ctx context.Context, s *stack.Stack, r *report.Report) error {
		if err := s.SetUp(ctx, products); err != nil {
			return err
		}
		d := &draining{Stack: s, config: config, products: vectors, queue: rabbit.DefaultNames().Queue, events: c.Count, prefetch: config.Prefetch()}
		r.Add("prefetch", "events", float64(d.prefetch))
		return c.measure(ctx, d, ofBodies(bodies, false), r)
	})
}

func (c *drainCmd) measure(ctx context.Context, d *draining, event eventMaker, r *report.Report) error {
	first := ""
	for i, w := range variants {
		if len(c.Only) > 0 && !slices.Contains(c.Only, w.name) {
			continue
		}
		add := r.Of(w.name)
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
			add("rate", "events/s", float64(d.events)/time.Since(began).Seconds())
			add("CPU of an event", "ms", (cpuTime()-cpu).Seconds()*1000/float64(d.events))
		}
		first = cmp.Or(first, w.name)
		add("of the first", "x", r.Median(w.name, "rate")/r.Median(first, "rate"))
	}
	return nil
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
