package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/engine/metric"
	"keyfold/internal/tracing"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/worker"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/topology"
)

// workCmd is the daemon.
type workCmd struct {
	Rebuild bool `help:"Make the profiles of MONGODB_DATABASE anew from streams, beside the workers of another database: their queue is left to them."`
}

// Service marks a command that runs until it is told to stop.
func (c *workCmd) Service() {}

func (c *workCmd) Check(a *app.App) error {
	faults := []error{a.CheckBroker(), a.CheckStore(), a.Vectors.Usable(), a.Queues.CheckWorker()}
	if c.Rebuild && a.Queues.Streams == 0 {
		faults = append(faults, errors.New("--rebuild reads streams, and RABBITMQ_STREAMS is 0: set it to the number of streams, or make profiles anew from the outbox by `keyfold user rebuild --all`"))
	}
	return errors.Join(faults...)
}

// Run starts the admin endpoint, which answers also while the store is away, and
// works until the program is told to stop.
func (c *workCmd) Run(a *app.App) error {
	a.LogStart("work")
	config := workerConfig(a)
	if c.Rebuild {
		config.Names = config.Names.Rebuild(a.Servers.Database)
		if err := setUpRebuild(a, config); err != nil {
			return err
		}
	}
	vectors := a.Vectors.Holding(a.Config.Prefetch(), a.Config.Memory)
	return a.WithEmbedding(vectors, 0, func(e *embedding.Embedding) error {
		warnOfRedis(a, e)
		return a.WithTracing("keyfold-work", func(t *tracing.Tracing) error {
			w := working{worker.New(config, workerPorts(a, e, t)), e}
			return a.WithAdmin(w, func() error { return w.Run(a.Ctx) })
		})
	})
}

// setUpRebuild makes the queues of a rebuild, which are as the workers' own.
func setUpRebuild(a *app.App, config worker.Config) error {
	err := topology.Setup(a.Ctx, a.Servers.RabbitMQ, topology.Config{
		Names: config.Names.WithoutSlots(), QueueType: config.QueueType, NoPriorities: config.NoPriorities,
		RetryDelays: rabbit.RetryDelays(a.Config.Retry.Delay, a.Config.Retry.Attempts),
	})
	if err == nil {
		a.Log.Info("profiles are made anew from streams", slog.String("database", a.Servers.Database), slog.String("queue", config.Names.Queue))
	}
	return app.BrokerUnreached(err)
}

// warnOfRedis looks once whether Redis answers. The worker goes on without it.
func warnOfRedis(a *app.App, e *embedding.Embedding) {
	if e.Redis == nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.Ctx, time.Second)
	defer cancel()
	if err := e.Redis.Ping(ctx); err != nil && a.Ctx.Err() == nil {
		a.Log.With("component", "search").Warn("Redis cannot be used: phrase vectors are cached in memory only",
			slog.String("hint", causes.Hint(err, "it is used once it answers")), slog.Any("error", err))
	}
}

func workerConfig(a *app.App) worker.Config {
	c := worker.Config{
		Config:       a.Config,
		DSN:          a.Servers.RabbitMQ,
		Names:        rabbit.DefaultNames(),
		Identity:     a.Identity("worker"),
		QueueType:    a.Queues.WorkerType(),
		NoPriorities: a.Queues.NoPriorities,
		About: []slog.Attr{
			slog.String("database", a.Servers.Database),
			slog.String("embeddings", a.Vectors.Where()),
		},
	}
	if a.Queues.Partitions > 0 {
		c.Partitions = &consume.Partitions{Only: a.Queues.Only}
	}
	if a.Queues.Streams > 0 {
		c.Streams = &worker.Streams{URI: a.StreamsURI(), Store: a.Servers.Database}
	}
	if !a.Vectors.Offline {
		c.PhraseTimeout = a.Vectors.PhraseTimeout
	}
	return c
}

func workerPorts(a *app.App, e *embedding.Embedding, t *tracing.Tracing) worker.Ports {
	ports := worker.Ports{
		OpenStore: func(ctx context.Context) (worker.Store, error) { return a.OpenChecked(ctx) },
		Phrases:   e.Phrases,
		Log:       a.Log,
		Clock:     a.Clock,
	}
	if t != nil {
		ports.Tracing = t
	}
	return ports
}

// working is a running daemon as the admin endpoint sees it.
type working struct {
	*worker.Worker
	embedding *embedding.Embedding
}

func (w working) Notes() []string { return append(w.embedding.Notes(), w.Worker.Notes()...) }

func (w working) Register(set *metric.Set) {
	w.Worker.Register(set)
	w.embedding.Register(set)
}

func (w working) Figures() []app.Figure {
	s := w.Stats()
	if s == nil {
		return nil
	}
	outcome := func(outcomes ...engine.Outcome) func() int64 {
		return func() (n int64) {
			for _, o := range outcomes {
				n += s.Processor.Of(o)
			}
			return n
		}
	}
	figures := []app.Figure{
		{Name: "events", Read: func() int64 {
			if s.Streams == nil {
				return s.Consumer.Delivered.Load()
			}
			return s.Consumer.Delivered.Load() + s.Streams.Delivered.Load()
		}},
		{Name: "folded", Read: outcome(engine.Folded)},
		{Name: "writes", Read: s.Processor.Writes.Load},
		{Name: "duplicate", Read: outcome(engine.Duplicate)},
		{Name: "skipped", Read: outcome(engine.ProductMissing, engine.UserErased)},
		{Name: "dead", Read: s.Consumer.DeadLetters.Load},
		{Name: "retried", Read: s.Consumer.Retried.Load},
		{Name: "parked", Read: s.Consumer.Parked.Load},
		{Name: "conflicts", Read: s.Processor.Conflicts.Load},
		{Name: "store_failures", Read: s.Processor.Failures.Load},
		{Name: "waiting", Gauge: true, Read: s.Consumer.Unacked.Load},
	}
	if partitions := &s.Consumer.Partitions; partitions.Workers.Load() > 0 {
		figures = append(figures, app.Figure{Name: "partitions", Gauge: true, Read: partitions.Owned.Load})
	}
	if s.Streams != nil {
		figures = append(figures, app.Figure{Name: "streams", Gauge: true, Read: s.Streams.Owned.Load},
			app.Figure{Name: "replayed", Read: s.Processor.Replayed.Load})
	}
	return figures
}
