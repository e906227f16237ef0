package worker

import (
	"context"

	"keyfold/internal/shutdown"
	"keyfold/service/daemon"
)

// lifecycle consumes, and stops in order: see [daemon.Lifecycle].
func (w *Worker) lifecycle() *daemon.Lifecycle {
	return &daemon.Lifecycle{
		Control: &w.control, Clock: w.ports.Clock, Breaker: w.breaker, Windows: w.pipeline.Router,
		Closing: "closing its windows",
		Servers: []shutdown.Peer{
			{Name: "MongoDB", Package: "keyfold/sink/mongodb"},
			{Name: "the embedding API", Package: "keyfold/source/vector"},
			{Name: "RabbitMQ", Package: "keyfold/source/rabbit"},
		},
		Consume: w.consume,
		Drain:   w.drain,
		Connections: []daemon.Connection{
			{Name: "the delays", Close: w.retries.Close},
			{Name: "the publisher", Close: w.publisher.Close},
			{Name: "the store", Close: func(context.Context) error { return w.store.Close() }},
		},
	}
}

// drain closes the windows and waits until they are written.
func (w *Worker) drain(ctx context.Context) error {
	if w.prefetcher != nil {
		w.prefetcher.Release(ctx)
		defer w.prefetcher.Close()
	}
	defer w.pipeline.Processor.Close()
	return w.pipeline.Router.Drain(ctx)
}
