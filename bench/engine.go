package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
	"time"

	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/report"
	"keyfold/internal/settings"
	"keyfold/service/profile/pipeline"

	"keyfold/engine"

	"keyfold/proof/queue"
	"keyfold/shard"
	sink "keyfold/sink/memory"
	"keyfold/source/catalog"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// engineCmd drives generated sessions from proof/queue into sink/memory.
type engineCmd struct {
	Users    int    `default:"20000" help:"Users the sessions are spread over."`
	Sessions int    `default:"40000" help:"Sessions to generate."`
	Cores    int    `default:"1" help:"GOMAXPROCS of the measured part."`
	Runs     int    `default:"3" help:"Runs; the median counts."`
	Parse    bool   `default:"true" negatable:"" help:"Also measure reading the events from JSON."`
	Profile  string `placeholder:"FILE" help:"Write a CPU profile of the measured part."`

	Settings settings.Engine `embed:""`
}

// Run measures.
func (c *engineCmd) Run(ctx context.Context, r *report.Report) error {
	config, err := c.Settings.Config()
	if err != nil {
		return err
	}
	g := sample.DefaultConfig(c.Sessions)
	g.Users, g.Skew = c.Users, 0
	bodies := sample.Events(g)
	events, parsed, err := parse(bodies)
	if err != nil {
		return err
	}
	products, err := shopVectors(sample.Products(), config.Processor.Dimensions)
	if err != nil {
		return err
	}
	// The whole input and every profile are in memory, which no worker has: the
	// memory limit would measure the collector. It works as often as a worker's.
	debug.SetGCPercent(settings.GCPercent)
	previous := runtime.GOMAXPROCS(c.Cores)
	defer runtime.GOMAXPROCS(previous)

	stop, err := startProfile(c.Profile)
	if err != nil {
		return err
	}
	defer stop()
	for range c.Runs {
		run, err := engineRun(ctx, config, products, events)
		if err != nil {
			return err
		}
		run.add(r, float64(len(events)))
	}
	if c.Parse {
		r.Add("parse", "ns an event", float64(parsed.Nanoseconds())/float64(len(bodies)))
	}
	return nil
}

// profile starts a CPU profile into a file, if there is one to be written.
func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

func parse(bodies [][]byte) ([]profile.Event, time.Duration, error) {
	events := make([]profile.Event, len(bodies))
	began := time.Now()
	for i, body := range bodies {
		var err error
		if events[i], err = profile.ParseEvent(body, began); err != nil {
			return nil, 0, err
		}
	}
	return events, time.Since(began), nil
}

// shop is a catalogue in memory, by id.
type shop map[int32]profile.Product

func (s shop) Products(_ context.Context, ids []int32) ([]profile.Product, error) {
	var found []profile.Product
	for _, id := range ids {
		if p, ok := s[id]; ok {
			found = append(found, p)
		}
	}
	return found, nil
}

func shopVectors(products []profile.Product, dimensions int) (shop, error) {
	hash, err := vector.NewHash(dimensions)
	if err != nil {
		return nil, err
	}
	all := shop{}
	for _, p := range products {
		vectors, err := hash.Embed(context.Background(), []string{catalog.EmbedText(p)})
		if err != nil {
			return nil, err
		}
		p.Vector = vectors[0]
		all[p.ID] = p
	}
	return all, nil
}

// result is what one run took and did.
type result struct {
	took    time.Duration // wall clock
	cpu     time.Duration // user and system time of the process
	taste   *processor.Stats
	windows shard.Stats
	users   int
}

func (r result) add(to *report.Report, events float64) {
	batches := float64(r.taste.Batches.Load())
	to.Add("events", "", events)
	to.Add("users", "", float64(r.users))
	to.Add("took", "s", r.took.Seconds())
	to.Add("engine", "events/s per core", events/r.cpu.Seconds())
	to.Add("CPU of an event", "ns", float64(r.cpu.Nanoseconds())/events)
	to.Add("CPU", "s", r.cpu.Seconds())
	to.Add("batches", "", batches)
	to.Add("events of a batch", "", events/batches)
	to.Add("users of a flush", "", r.windows.KeysPerFlush())
	to.Add("writes", "", float64(r.taste.Writes.Load()))
	to.Add("reads", "", float64(r.taste.Reads.Load()))
	to.Add("cache hits", "", float64(r.taste.Hits.Load()))
}

// engineRun takes all events through once. Windows run on the events' own
// clock: no time is spent waiting for them.
func engineRun(ctx context.Context, config settings.Config, products shop, events []profile.Event) (result, error) {
	laws, windows := config.Processor, config.Shard
	laws.Model = vector.HashModel
	laws.CacheBytes = 1 << 30 // every user's: the store is memory anyway
	windows.Clock = shard.EventClock
	store := sink.New(laws.Dimensions)
	ports, err := pipeline.Ports(laws, store, products)
	if err != nil {
		return result{}, err
	}
	p, err := pipeline.New(windows, laws, ports)
	if err != nil {
		return result{}, err
	}
	queue := queue.NewQueue()
	queue.Publish(events...)
	queue.Close()
	runtime.GC()
	began, cpu, left := time.Now(), cpuTime(), len(events)
	drained := make(chan error, 1)
	err = queue.Run(ctx, 256, func(ctx context.Context, deliveries []profile.Delivery) error {
		err := p.Deliver(ctx, deliveries)
		if left -= len(deliveries); left == 0 || err != nil {
			// The last windows would wait for an event that never comes.
			go func() { drained <- p.Router.Drain(ctx) }()
		}
		return err
	})
	if err := errors.Join(err, <-drained); err != nil {
		return result{}, err
	}
	took := result{took: time.Since(began), cpu: cpuTime() - cpu}
	if folded, repeated := queue.Count(engine.Folded), queue.Count(engine.Duplicate); folded+repeated != int64(len(events)) {
		return result{}, fmt.Errorf("%d events folded and %d repeated of %d", folded, repeated, len(events))
	}
	took.taste, took.windows, took.users = p.Processor.Stats(), p.Router.Stats(), store.Len()
	return took, nil
}

// cpuTime is the process's user and system time: on a machine that others use
// too, it says more than the clock on the wall.
func cpuTime() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// kernelTime is the process's system time.
func kernelTime() time.Duration {
	u := usage()
	return time.Duration(u.Stime.Nano())
}

func usage() (u syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u
}
