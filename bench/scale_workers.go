package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"keyfold/bench/stack"
	mongotest "keyfold/bench/testserver/mongodb"
	"keyfold/cmd/settings"
	"keyfold/cmd/worker"
	"keyfold/engine/metric"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/vector"
)

// scaleWorkersCmd has more and more workers drain queues whose events wait for the
// store. The workers run in this process: their windows are flushed one after the other,
// few users at a time, which no setting of `keyfold work` asks for.
type scaleWorkersCmd struct {
	scaleFlags `embed:""`

	Workers    []int         `default:"1,2,5,10" help:"Numbers of workers."`
	Events     int           `default:"10000" help:"Events for each worker: enough for a few dozen of each user's."`
	Latency    time.Duration `default:"20ms" help:"What the store takes for each command, beside its work."`
	FlushUsers int           `default:"1" help:"Users of a flush at most. A worker has one flush in flight."`
	Competing  bool          `default:"true" negatable:"" help:"Also measure workers that compete for one queue."`

	Settings settings.Engine `embed:""`
}

// scaled is one number of workers.
type scaled struct {
	drained

	Partitions int     `json:"partitions"` // 0: the workers compete for one queue
	Speedup    float64 `json:"speedup"`
	OfLinear   float64 `json:"of_linear"`
}

// scaleReport is what scaleWorkersCmd prints.
type scaleReport struct {
	Users      int      `json:"users"`
	Zipf       bool     `json:"zipf"`
	Latency    float64  `json:"store_latency_ms"`
	FlushUsers int      `json:"users_of_a_flush"`
	Batch      int      `json:"events_of_a_window"`
	Runs       []scaled `json:"runs"`
}

// Run measures and prints.
func (c *scaleWorkersCmd) Run(ctx context.Context) error {
	config, err := c.Settings.Config()
	if err != nil {
		return err
	}
	config.Limit()
	config.Taste.Model, config.Shard.MaxSize = vector.HashModel, c.Batch
	config.Shard.Flushes, config.Shard.FlushKeys = 1, c.FlushUsers
	config.Timeout = time.Minute // a stop writes what is held, as slowly
	products, err := shopVectors(config.Taste.Dimensions)
	if err != nil {
		return err
	}
	return c.run(ctx, func(ctx context.Context, s *stack.Stack) error {
		if err := slow(ctx, s, c.Latency); err != nil {
			return err
		}
		r := scaleReport{
			Users: c.Users, Zipf: c.Zipf, Latency: float64(c.Latency.Microseconds()) / 1000, FlushUsers: c.FlushUsers, Batch: c.Batch,
		}
		ways := []int{c.Partitions}
		if c.Competing {
			ways = append(ways, 0)
		}
		start := func(b *backlog, i int) (member, error) { return startHere(b, i, config, products) }
		for _, partitions := range ways {
			for _, n := range c.Workers {
				b := &backlog{
					Stack: s, flags: &c.scaleFlags, name: fmt.Sprintf("workers-%d-%d", partitions, n),
					partitions: partitions, workers: n, events: n * c.Events, late: true, start: start,
				}
				d, err := b.drain(ctx)
				if err != nil {
					return err
				}
				r.Runs = append(r.Runs, scaled{drained: d, Partitions: partitions})
			}
		}
		r.compare()
		return errors.Join(c.emit(r, r.print), c.misses(&r))
	})
}

// slow has the store wait for so long before each command of a worker.
func slow(ctx context.Context, s *stack.Stack, latency time.Duration) error {
	if latency == 0 {
		return nil
	}
	control, err := mongotest.Dial(ctx, s.Store.Address())
	if err != nil {
		return err
	}
	_, err = control.Inject(mongotest.Fault{
		Commands: []string{"find", "aggregate", "insert", "update", "delete", "findAndModify"}, BlockConnection: true, BlockTimeMS: latency.Milliseconds(),
	})
	return errors.Join(err, control.Close())
}

// startHere starts a worker in this process.
func startHere(b *backlog, i int, config settings.Config, products shop) (member, error) {
	c := worker.Config{Config: config, DSN: b.DSN, Names: rabbit.DefaultNames(), Identity: rabbit.ThisProcess("bench")}
	c.Identity.PID = i // the broker tells the workers apart by it
	if b.partitions > 0 {
		c.Partitions = &rabbit.Partitions{}
	}
	store := b.Profiles
	w, set := worker.New(c, worker.Ports{
		OpenStore: func(ctx context.Context) (worker.Store, error) {
			opened, err := mongodb.Open(ctx, store)
			return onTheWire{opened, products}, err
		},
		Log: slog.New(slog.DiscardHandler),
	}), &metric.Set{}
	w.Register(set)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	return member{
		metrics: func(context.Context) (map[string]float64, error) {
			select {
			case err := <-ended:
				ended <- err
				return nil, errors.Join(err, errors.New("a worker ended early"))
			default:
			}
			var text bytes.Buffer
			set.WritePrometheus(&text)
			return metric.Parse(&text)
		},
		stop: func() error { stop(); return <-ended },
	}, nil
}

// compare sets each run beside that of one worker.
func (r *scaleReport) compare() {
	for i := range r.Runs {
		run := &r.Runs[i]
		one := r.of(run.Partitions)
		run.Speedup = ratio(run.Rate, one.Rate) * float64(one.Workers)
		run.OfLinear = run.Speedup / float64(run.Workers)
	}
}

// of returns the run of the fewest workers.
func (r *scaleReport) of(partitions int) *scaled {
	return &r.Runs[slices.IndexFunc(r.Runs, func(s scaled) bool { return s.Partitions == partitions })]
}

func (r *scaleReport) print(w io.Writer) error {
	users := "users alike"
	if r.Zipf {
		users = "Zipf users"
	}
	_, err := fmt.Fprintf(w, `%d %s, %.0f ms a command of the store, one flush of %d users in flight, %d events of a window at most
the backlog is published when each worker has its partitions for good, and measured from %.0f %% to %.0f %% of its acknowledgements
                   workers  events/s  speedup  of linear  conflicts/1,000  delayed/1,000  dead letters  writes/event  processors: workers  broker  store
`, r.Users, users, r.Latency, r.FlushUsers, r.Batch, 100*beginAt, 100*endAt)
	for _, run := range r.Runs {
		name := "competing"
		if run.Partitions > 0 {
			name = fmt.Sprintf("%d partitions", run.Partitions)
		}
		_, failed := fmt.Fprintf(w, "%-18s %7d  %8.0f  %7.2f  %9.2f  %15.2f  %13.2f  %12d  %12.3f  %18.1f %%  %4.1f %%  %3.1f %%\n", name, run.Workers, run.Rate, run.Speedup, run.OfLinear,
			run.Conflicts, run.Delayed, run.DeadLetters, run.WritesEach, 100*run.WorkersShare, 100*run.BrokerShare, 100*run.StoreShare)
		err = errors.Join(err, failed)
	}
	return err
}

// Targets for partitions and users that are alike.
const (
	leastOfLinear = 0.8
	mostConflicts = 1.0
	mostWrites    = 0.05 // more or less than with one worker
	mostOfOne     = 0.05 // share of the processors that one worker may have: waiting is the bound
)

// misses says which targets were missed.
func (c *scaleWorkersCmd) misses(r *scaleReport) (err error) {
	if !c.Check || c.Zipf {
		return nil
	}
	miss := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	one := r.of(c.Partitions)
	if one.Workers == 1 && one.WorkersShare > mostOfOne {
		miss("one worker uses %.1f %% of the processors, more than %.0f %%: they may be the bound and not the store; lower --flush-users", 100*one.WorkersShare, 100*mostOfOne)
	}
	for _, run := range r.Runs {
		if run.Partitions == 0 {
			continue
		}
		if run.OfLinear < leastOfLinear {
			miss("%d workers reach %.2f of linear, less than %.2f", run.Workers, run.OfLinear, leastOfLinear)
		}
		if run.Conflicts > mostConflicts {
			miss("%d workers have %.2f conflicts per 1,000 events, more than %.0f", run.Workers, run.Conflicts, mostConflicts)
		}
		if each := ratio(run.WritesEach, one.WritesEach); each > 1+mostWrites || each < 1-mostWrites {
			miss("%d workers make %.2f times the writes per event of one", run.Workers, each)
		}
	}
	return err
}
