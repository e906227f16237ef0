package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"keyfold/cmd/embedding"
	"keyfold/cmd/pipeline"
	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
)

// workCmd is the daemon.
type workCmd struct{}

func (c *workCmd) check(a *app) error {
	return errors.Join(a.checkBroker(), a.checkStore(), a.checkVectors())
}

// Run starts from the store towards the broker and stops the other way round:
// nothing is taken in before it can be written, and what was taken in is
// written and acknowledged before anything it needs goes away.
func (c *workCmd) Run(a *app) (err error) {
	w := &worker{app: a, joined: make(chan struct{})}
	vectors := a.vectors.Holding(a.config.Prefetch(), a.config.Memory)
	if w.embedding, err = embedding.New(vectors, a.config.Taste.Dimensions, 0, a.log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.embedding.Close()) }()
	w.closeWindows = sync.OnceValue(w.drain)
	admin, err := startAdmin(a.servers.Admin, w, a.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.close()) }()

	if w.store, err = awaitStore(a); err != nil {
		return a.unlessStopped(err)
	}
	defer func() { err = errors.Join(err, w.store.Close()) }()
	if err := w.join(); err != nil {
		return err
	}
	w.announce()

	err = w.consume()
	return errors.Join(err, w.shutDown())
}

// unlessStopped returns err unless the program was told to stop.
func (a *app) unlessStopped(err error) error {
	select {
	case <-a.ctx.Done():
		return nil
	default:
		return err
	}
}

// worker is a running daemon.
type worker struct {
	*app
	embedding *embedding.Embedding
	store     *mongodb.Store
	parts
	faults faults
	brake  brake
	// closeWindows writes what is held: the first call does, every call waits.
	closeWindows func() error
	// joined is closed once parts may be read by the admin endpoint, which is
	// there from the start.
	joined chan struct{}
}

// parts are the way from the queue to the store.
type parts struct {
	breaker   *breaker.Breaker // the store's
	pipeline  *pipeline.Pipeline
	anteroom  *embedding.Anteroom // nil: the embedder keeps nobody waiting
	publisher *rabbit.Publisher
	retries   *rabbit.DelayQueues
	consumer  *rabbit.Consumer
}

// ways returns the parts, nil while the worker is starting.
func (w *worker) ways() *parts {
	select {
	case <-w.joined:
		return &w.parts
	default:
		return nil
	}
}

// join builds the way from the queue to the store.
func (w *worker) join() error {
	var err error
	if w.breaker, err = breaker.New(w.config.Breaker, w.store.Probe, w.storeChanged); err != nil {
		return err
	}
	ports, err := pipeline.Ports(w.config.Taste,
		pipeline.GuardProfiles(w.breaker.Line, w.store), pipeline.GuardProducts(w.breaker.Line(), w.store))
	if err != nil {
		return err
	}
	ports.Phrases = w.embedding.Phrases
	if w.embedding.API != nil {
		w.anteroom = embedding.NewAnteroom(w.embedding.Phrases, w.vectors.Patience,
			func(ctx context.Context, d []engine.Delivery) error { return w.pipeline.Deliver(ctx, d) })
		if w.config.Taste.History == engine.UnitMass {
			w.anteroom.Open(w.ctx) // where the order counts no event overtakes another
		}
		ports.Phrases = w.anteroom
	}
	ports.Fault, ports.Log, ports.Await = w.fault, w.log, w.breaker.Wait
	// The windows feel the pressure of what the broker may send, which is less
	// than what they could hold: else they would wait for more than can come.
	windows := w.config.Shard
	windows.MaxHeld = w.config.Prefetch()
	if w.pipeline, err = pipeline.New(windows, w.config.Taste, ports); err != nil {
		return err
	}
	identity, names := rabbit.ThisProcess("worker"), rabbit.DefaultNames()
	w.publisher = rabbit.NewPublisher(w.servers.RabbitMQ, identity, "publisher", rabbit.Timing{}, w.log)
	w.retries = rabbit.NewDelayQueues(w.servers.RabbitMQ, names, identity, rabbit.Timing{}, w.log)
	w.consumer, err = rabbit.NewConsumer(rabbit.Config{
		DSN:        w.servers.RabbitMQ,
		Names:      names,
		Identity:   identity,
		QueueType:  rabbit.QueueType(w.servers.QueueType),
		Prefetch:   w.config.Prefetch(),
		MaxBytes:   w.config.Shard.MaxHeldBytes,
		Ordered:    w.config.Taste.History == engine.UnitMass,
		MaxRetries: w.config.Retry.Attempts,
		RetryDelay: w.config.Retry.Delay,
		Lease:      w.config.Taste.Lease,
	}, rabbit.Ports{
		DeadLetters: rabbit.DeadLetterQueue{Publisher: w.publisher, Names: names, Host: identity.Host},
		Retries:     w.retries,
		Log:         w.log,
	})
	if err == nil {
		close(w.joined)
	}
	return err
}

// announce logs what the daemon runs with, secrets left out.
func (w *worker) announce() {
	c := w.config
	w.log.Info("working",
		slog.String("broker", rabbit.Redact(w.servers.RabbitMQ)),
		slog.String("database", w.servers.Database),
		slog.String("model", c.Taste.Model),
		slog.String("embeddings", w.vectors.Where()),
		slog.String("history", string(c.Taste.History)),
		slog.Int("shards", c.Shard.Shards),
		slog.Int("prefetch", c.Prefetch()),
		slog.Duration("window", c.Shard.Window),
		slog.Bool("batching", c.Shard.Batching))
	if c.Shard.Batching {
		// Held events come from prefetch: rate <= prefetch / hold.
		w.log.Info("throughput bound", slog.String("events_per_second", fmt.Sprintf("%.0f while every window runs its full time",
			float64(c.Prefetch())*0.75/c.Shard.Window.Seconds())))
	}
}

// deliver hands deliveries to their windows, searches once they have vectors.
func (w *worker) deliver(ctx context.Context, deliveries []engine.Delivery) error {
	if w.anteroom == nil {
		return w.pipeline.Deliver(ctx, deliveries)
	}
	return w.anteroom.Deliver(ctx, deliveries)
}

// consume runs until the program is told to stop or cannot go on.
func (w *worker) consume() error {
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-w.pipeline.Router.Failed():
			cancel(w.pipeline.Router.Err())
		case <-ctx.Done():
		}
	}()
	// At once: the broker's answer to the consumer's end may take long, or never
	// come, and windows need not wait for it. Nothing is handed over any more.
	defer context.AfterFunc(ctx, func() { _ = w.closeWindows() })()
	err := w.consumer.Run(ctx, w.deliver)
	if failure := w.pipeline.Router.Err(); failure != nil {
		return failure
	}
	if engine.KindOf(err) == engine.Configuration {
		return err
	}
	return w.unlessStopped(err)
}
