package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/source/rabbit"
)

// Run works until ctx ends or the worker cannot go on, and then stops in order. It
// returns nil where it was told to stop and everything it held was settled. The
// clock bounds each step of the stop, but not a store that does not close: see
// [keyfold/cmd/shutdown.Clock.Run].
func (w *Worker) Run(ctx context.Context) error {
	var err error
	if w.store, err = w.awaitStore(ctx); err != nil {
		return unlessStopped(ctx, err)
	}
	if err := w.start(ctx); err != nil {
		return errors.Join(err, w.store.Close())
	}
	w.announce()
	err = w.consume(ctx)
	return errors.Join(err, w.shutDown(ctx))
}

// unlessStopped returns err unless the worker was told to stop.
func unlessStopped(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// awaitStore opens the store and retries for as long as the store is away: a worker
// may start before its servers. It returns configuration faults at once.
func (w *Worker) awaitStore(ctx context.Context) (Store, error) {
	pauses := backoff.Backoff{Min: time.Second, Max: 15 * time.Second}
	for attempt := 1; ; attempt++ {
		store, err := w.ports.OpenStore(ctx)
		if err == nil || engine.KindOf(err) == engine.Configuration || ctx.Err() != nil {
			return store, err
		}
		pause := pauses.Next()
		if attempt == 1 { // the end is the line "worker started"
			w.ports.Log.Error("store not reachable: the worker waits for it", slog.Duration("retry_in", pause), slog.Any("error", err))
		}
		if !backoff.Sleep(ctx, pause) {
			return nil, context.Cause(ctx)
		}
	}
}

// announce logs the settings in force, without secrets.
func (w *Worker) announce() {
	c := &w.config
	w.ports.Log.LogAttrs(context.Background(), slog.LevelInfo, "worker started", append([]slog.Attr{
		slog.String("broker", rabbit.Redact(c.DSN)),
		slog.String("model", c.Taste.Model),
		slog.String("history", string(c.Taste.History)),
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

// consume delivers events until ctx ends or the worker cannot go on.
func (w *Worker) consume(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	go func() {
		select {
		case <-w.pipeline.Router.Failed():
			cancel(w.pipeline.Router.Err())
		case <-ctx.Done():
		}
	}()
	// The windows are closed beside the end of the consumer, not after it: the
	// broker's answer to a cancelled consumer may take long or never come.
	defer context.AfterFunc(ctx, func() { _ = w.closeWindows(parent) })()
	err := w.consumer.Run(ctx, rabbit.Events(w.deliver))
	if failure := w.pipeline.Router.Err(); failure != nil {
		return failure
	}
	if engine.KindOf(err) == engine.Configuration {
		return err
	}
	return unlessStopped(parent, err)
}

// deliver hands deliveries to their windows, searches once they have vectors.
func (w *Worker) deliver(ctx context.Context, deliveries []engine.Delivery) error {
	if w.prefetcher == nil {
		return w.pipeline.Deliver(ctx, deliveries)
	}
	return w.prefetcher.Deliver(ctx, deliveries)
}
