package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/proof/stack"
	"keyfold/service/profile/worker"
	sink "keyfold/sink/memory"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
	"keyfold/source/stream"
	"keyfold/source/vector"
)

// streamCmd reads the same events from streams in several ways. RabbitMQ 4 is needed.
type streamCmd struct {
	Count   int           `default:"600000" help:"Events in the streams."`
	Users   int           `default:"60000" help:"Users they are spread over, all alike: by default there are some 10 events of a write."`
	Streams int           `default:"8" help:"Streams."`
	Runs    int           `default:"3" help:"Runs of each way; the median counts."`
	Only    []string      `sep:"none" help:"Ways to run, by name; default: all."`
	Live    rate          `placeholder:"N/s" help:"Publish at this rate while a worker reads, in place of all else, and report how old events are when their profiles are written."`
	For     time.Duration `default:"10m" help:"With --live: for how long."`
	// What searches of their own would save: product events share a stream with searches that wait.
	Searches float64 `default:"0" help:"With --live: share of the events that are searches, each of a phrase of its own."`
	Away     bool    `help:"With --live: the embedding API is away, so that each search is copied into a delay queue."`

	Profile string `placeholder:"FILE" help:"Write a CPU profile of all runs, which has nothing of the publishing."`

	Log      logFlag         `embed:""`
	Settings settings.Engine `embed:""`
}

// streaming is the streams, and what reads them.
type streaming struct {
	*stack.Stack
	config   settings.Config
	products shop
	names    []string
	events   int
	writes   int64 // of the last run, 0 where it writes nothing
	number   int   // of the run
	searches float64
	away     bool // the embedding API
}

// streamWays are the ways to read. Each returns when all events are read, and settled where
// that is a part of it.
var streamWays = []struct {
	name string
	read func(context.Context, *streaming) error
}{
	{"bare", func(ctx context.Context, s *streaming) error { return s.bare(ctx, body) }},
	{"bare, with the parser", func(ctx context.Context, s *streaming) error { return s.bare(ctx, parsed) }},
	{"keyfold, memory", func(ctx context.Context, s *streaming) error { return s.keyfold(ctx, "") }},
	{"keyfold, store", func(ctx context.Context, s *streaming) error { return s.keyfold(ctx, mongodb.Array) }},
	{"keyfold, store, binary vectors", func(ctx context.Context, s *streaming) error { return s.keyfold(ctx, mongodb.Binary) }},
}

// Run measures every way.
func (c *streamCmd) Run(ctx context.Context, r *report.Report) error {
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
	return onServers(ctx, r, func(s *stack.Stack) { s.Streams = true }, func(ctx context.Context, on *stack.Stack, r *report.Report) error {
		s := &streaming{Stack: on, config: config, products: vectors, events: c.Count, searches: c.Searches, away: c.Away}
		if err := s.setUp(ctx, c.Streams); err != nil {
			return err
		}
		if c.Live.pause > 0 {
			return c.live(ctx, s, r)
		}
		event := amongUsers(ofBodies(bodies, false), c.Users)
		if err := errors.Join(s.queue(ctx, r, event), s.publish(ctx, r, event)); err != nil {
			return err
		}
		stop, err := startProfile(c.Profile) // of reading alone
		if err != nil {
			return err
		}
		defer stop()
		return c.measure(ctx, s, r)
	})
}

// amongUsers gives each event to one of so many users.
func amongUsers(event eventMaker, users int) eventMaker {
	return func(i int, id string) ([]byte, int, error) {
		body, n, err := event(i, id)
		if err != nil {
			return nil, n, err
		}
		var m map[string]any
		if err := json.Unmarshal(body, &m); err != nil {
			return nil, n, err
		}
		m["user_id"] = 1 + rand.IntN(users)
		body, err = json.Marshal(m)
		return body, n, err
	}
}

func (s *streaming) setUp(ctx context.Context, streams int) error {
	names := rabbit.DefaultNames()
	err := topology.Setup(ctx, s.DSN, topology.Config{
		Names: names, QueueType: topology.Classic, Streams: streams, RetryDelays: rabbit.RetryDelays(s.config.Retry.Delay, s.config.Retry.Attempts),
	})
	if err == nil {
		s.names, err = topology.Streams(ctx, s.DSN, names)
	}
	return err
}

// costs of a piece of work, from its beginning on.
type costs struct {
	s      *streaming
	began  time.Time
	cpu    time.Duration
	kernel time.Duration // of cpu
	broker report.Usage
}

func (s *streaming) begin() (c costs, err error) {
	c = costs{s: s, began: time.Now(), cpu: cpuTime(), kernel: kernelTime()}
	c.broker, err = report.UsageOf(s.Broker.PID())
	return c, err
}

// end adds what so many events have cost.
func (c costs) end(add func(name, unit string, value float64), events int) error {
	cpu, kernel, took := cpuTime()-c.cpu, kernelTime()-c.kernel, time.Since(c.began)
	broker, err := report.UsageOf(c.s.Broker.PID())
	if err != nil {
		return err
	}
	n := float64(events)
	add("rate", "events/s", n/took.Seconds())
	add("CPU of an event", "us", cpu.Seconds()*1e6/n)
	// A store in memory grows by every profile. Its new pages are no worker's, and how many the
	// kernel has to bring differs by some us of an event from run to run.
	add("of it in the kernel", "us", kernel.Seconds()*1e6/n)
	add("broker's CPU of an event", "us", (broker.Processor-c.broker.Processor).Seconds()*1e6/n)
	return nil
}

// inQueue is how many events go through a queue, to compare the broker's work.
const inQueue = 60_000

// queue publishes events to a classic queue and takes them out again in the cheapest way.
func (s *streaming) queue(ctx context.Context, r *report.Report, event eventMaker) error {
	l := newLoad(s.Stack, rate{}, "queue")
	l.event = event
	c, err := s.begin()
	if err != nil {
		return err
	}
	if err := l.preload(ctx, inQueue); err != nil {
		return err
	}
	if err := c.end(r.Of("publish to a classic queue"), inQueue); err != nil {
		return err
	}
	if c, err = s.begin(); err != nil {
		return err
	}
	const prefetch, acked = 1024, 256
	d := &draining{Stack: s.Stack, queue: rabbit.DefaultNames().Queue, prefetch: prefetch}
	conn, deliveries, err := d.channel()
	if err != nil {
		return err
	}
	var last amqp.Delivery
	for i := range inQueue {
		if last = <-deliveries; (i+1)%acked == 0 || i+1 == inQueue {
			if err := last.Ack(true); err != nil {
				return err
			}
		}
	}
	return errors.Join(c.end(r.Of("drain a classic queue"), inQueue), conn.Close())
}

// uri is where the streams are.
func (s *streaming) uri() string { return rabbittest.StreamURI(s.Broker.StreamAddress(), "/") }

func (s *streaming) dial(ctx context.Context) (*stream.Conn, error) {
	return stream.Dial(ctx, stream.Config{URI: s.uri(), Name: "keyfold bench"})
}

func (c *streamCmd) measure(ctx context.Context, s *streaming, r *report.Report) error {
	first := ""
	for _, w := range streamWays {
		if len(c.Only) > 0 && !slices.Contains(c.Only, w.name) {
			continue
		}
		add := r.Of(w.name)
		for range c.Runs {
			s.writes, s.number = 0, s.number+1
			costs, err := s.begin()
			if err != nil {
				return err
			}
			if err := w.read(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if err := costs.end(add, s.events); err != nil {
				return err
			}
			if s.writes > 0 {
				add("events of a write", "", float64(s.events)/float64(s.writes))
			}
		}
		first = cmp.Or(first, w.name)
		add("CPU of the first", "x", r.Median(w.name, "CPU of an event")/r.Median(first, "CPU of an event"))
	}
	return nil
}

func body(m stream.Message) error {
	_, err := m.Body()
	return err
}

func parsed(m stream.Message) error {
	body, err := m.Body()
	if err == nil {
		_, err = profile.ParseEvent(body, time.Now())
	}
	return err
}

// bare reads all streams, and does nothing else with a message than take.
func (s *streaming) bare(ctx context.Context, take func(stream.Message) error) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var read atomic.Int64
	for _, name := range s.names {
		_, err = conn.Subscribe(ctx, stream.Consume{Stream: name, From: stream.First, Credit: 4, Handle: func(_ context.Context, sub *stream.Subscription, c stream.Chunk) {
			err := c.Each(func(_ uint64, m stream.Message) error { return take(m) })
			if err = errors.Join(err, sub.Credit(1)); err != nil {
				cancel(err)
			}
			if read.Add(int64(c.Records)) == int64(s.events) {
				cancel(errAllRead)
			}
		}})
		if err != nil {
			return err
		}
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, errAllRead) {
		return err
	}
	return nil
}

var errAllRead = errors.New("all events are read")

// keyfold is the worker itself, with the store on the wire, or without a format one in
// memory. It reads the streams from their beginning, as no position is stored.
func (s *streaming) keyfold(ctx context.Context, format mongodb.Format) error {
	c := s.worker()
	w := worker.New(c, s.ports(c, format))
	d := &draining{events: s.events}
	err := d.consume(ctx, w)
	if stats := w.Stats(); stats != nil {
		s.writes = stats.Processor.Writes.Load()
	}
	return err
}

// worker returns the settings of a worker whose store has no positions yet.
func (s *streaming) worker() worker.Config {
	c := worker.Config{
		Config: s.config, DSN: s.DSN, Names: rabbit.DefaultNames(), Identity: rabbit.ThisProcess("bench"),
		Streams: &worker.Streams{URI: s.uri(), Store: fmt.Sprint("bench-", s.number)},
	}
	c.Processor.Model = vector.HashModel
	c.Timeout = 5 * time.Minute // the stop writes what all windows hold
	return c
}

// ports join a worker to a store on the wire, or without a format to one in memory.
func (s *streaming) ports(c worker.Config, format mongodb.Format) worker.Ports {
	ports := worker.Ports{
		OpenStore: func(context.Context) (worker.Store, error) {
			return inMemory{sink.New(c.Processor.Dimensions), s.products}, nil
		},
		Log: slog.New(slog.DiscardHandler),
	}
	if s.away {
		ports.Phrases = noAPI{}
	}
	if format != "" {
		ports.OpenStore = func(ctx context.Context) (worker.Store, error) {
			m := mongodb.DefaultConfig()
			m.URI, m.Model, m.Format, m.Database = s.Profiles.URI, c.Processor.Model, format, c.Streams.Store
			store, err := mongodb.Open(ctx, m)
			if err == nil {
				_, err = store.Setup(ctx)
			}
			return onTheWire{store, s.products}, err
		}
	}
	return ports
}
