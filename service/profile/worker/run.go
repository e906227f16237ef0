package worker

import (
	"context"
	"errors"
	"log/slog"

	"keyfold/engine/profile"
	"keyfold/service/daemon"
	"keyfold/source/rabbit"
)

// Run works until ctx ends or the worker cannot go on, and then stops in order. It
// returns nil where it was told to stop and everything it held was settled. The
// clock bounds each step of the stop, but not a store that does not close: see
// [keyfold/internal/shutdown.Clock.Run].
func (w *Worker) Run(ctx context.Context) error {
	var err error
	if w.store, err = daemon.AwaitStore(ctx, w.ports.Log, w.ports.OpenStore); err != nil {
		return daemon.UnlessStopped(ctx, err)
	}
	if err := w.start(ctx); err != nil {
		return errors.Join(err, w.store.Close())
	}
	w.announce()
	return w.lifecycle().Run(ctx)
}

// announce logs the settings in force, without secrets.
func (w *Worker) announce() {
	c := &w.config
	w.ports.Log.LogAttrs(context.Background(), slog.LevelInfo, "worker started", append([]slog.Attr{
		slog.String("broker", rabbit.Redact(c.DSN)),
		slog.String("model", c.Processor.Model),
		slog.String("history", string(c.Processor.History)),
		slog.Int("shards", c.Shard.Shards),
		slog.Int("prefetch", c.Prefetch()),
		slog.Duration("window", c.Shard.Window),
		slog.Bool("batching", c.Shard.Batching),
	}, c.About...)...)
	if c.Shard.Batching {
		// Windows are closed early from 75 % of the prefetch on, so that the rate is at
		// most what fits below that, divided by the time it is held.
		w.ports.Log.Info("upper bound of the rate while every window runs its full time",
			slog.Int("events_per_second", int(float64(c.Prefetch())*0.75/c.Shard.Window.Seconds())))
	}
}

// deliver hands deliveries to their windows, searches once they have vectors.
func (w *Worker) deliver(ctx context.Context, deliveries []profile.Delivery) error {
	if w.ports.Tracing != nil {
		w.ports.Tracing.Received(ctx, deliveries)
	}
	if w.prefetcher == nil {
		return w.pipeline.Deliver(ctx, deliveries)
	}
	return w.prefetcher.Deliver(ctx, deliveries)
}
