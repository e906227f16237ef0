package main

import (
	"context"
	"errors"
	"log/slog"

	"keyfold/cmd/embedding"
	"keyfold/cmd/worker"
	"keyfold/engine/metric"
	"keyfold/source/rabbit"
)

// workCmd is the daemon.
type workCmd struct{}

func (c *workCmd) check(a *app) error {
	return errors.Join(a.checkBroker(), a.checkStore(), a.checkVectors())
}

// Run starts the admin endpoint, which answers also while the store is away, and
// works until the program is told to stop.
func (c *workCmd) Run(a *app) (err error) {
	vectors := a.vectors.Holding(a.config.Prefetch(), a.config.Memory)
	e, err := embedding.New(vectors, a.config.Taste.Dimensions, 0, a.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	w := working{worker.New(a.workerConfig(), a.workerPorts(e)), e}
	admin, err := startAdmin(a.servers.Admin, w, a.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.close()) }()
	return w.Run(a.ctx)
}

func (a *app) workerConfig() worker.Config {
	c := worker.Config{
		Config:    a.config,
		DSN:       a.servers.RabbitMQ,
		Names:     rabbit.DefaultNames(),
		Identity:  rabbit.ThisProcess("worker"),
		QueueType: rabbit.QueueType(a.servers.QueueType),
		About: []slog.Attr{
			slog.String("database", a.servers.Database),
			slog.String("embeddings", a.vectors.Where()),
		},
	}
	if !a.vectors.Offline {
		c.PhraseTimeout = a.vectors.Patience
	}
	return c
}

func (a *app) workerPorts(e *embedding.Embedding) worker.Ports {
	return worker.Ports{
		OpenStore: func(ctx context.Context) (worker.Store, error) { return openChecked(ctx, a) },
		Phrases:   e.Phrases,
		Log:       a.log,
		Clock:     a.clock,
		Stacks:    a.stderr,
	}
}

// working is a running daemon as the admin endpoint sees it.
type working struct {
	*worker.Worker
	embedding *embedding.Embedding
}

func (w working) ready(context.Context) error { return w.Ready() }

func (w working) notes() []string { return append(w.embedding.Away(), w.Notes()...) }

func (w working) register(set *metric.Set) {
	w.Register(set)
	w.embedding.Register(set)
}
