package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"keyfold/engine/notify/processor"
	"keyfold/service/daemon"
	"keyfold/source/rabbit"
)

// Run works until ctx ends or the worker cannot go on, and then stops in order. It
// returns nil where it was told to stop and everything it held was settled. The
// clock bounds each step of the stop, but not a ledger that does not close: see
// [keyfold/internal/shutdown.Clock.Run].
func (w *Worker) Run(ctx context.Context) error {
	var err error
	if w.ledger, err = daemon.AwaitStore(ctx, w.ports.Log, w.ports.OpenLedger); err != nil {
		return daemon.UnlessStopped(ctx, err)
	}
	if err := w.start(); err != nil {
		return errors.Join(err, w.ledger.Close())
	}
	w.announce()
	checks, cancel := context.WithCancel(ctx)
	var checking sync.WaitGroup
	w.check(checks)
	checking.Go(func() { w.checkOften(checks) })
	checking.Go(func() { w.reports.Watch(checks, w.ledger, w.ports.Now, w.ports.Log) })
	if w.ports.Follow != nil {
		checking.Go(func() { w.ports.Follow(checks) })
	}
	checking.Go(func() { w.backlog.Watch(checks, w.ledger, w.ports.Now, w.ports.Log) })
	life := w.lifecycle()
	life.Consume = func(consuming context.Context) error {
		defer checking.Wait()
		defer cancel()
		if err := w.notifier.Start(ctx); err != nil {
			return err
		}
		return w.consume(consuming)
	}
	return life.Run(ctx)
}

// announce logs the settings in force, without secrets.
func (w *Worker) announce() {
	c := &w.config
	w.ports.Log.LogAttrs(context.Background(), slog.LevelInfo, "worker started", append([]slog.Attr{
		slog.String("broker", rabbit.Redact(c.DSN)),
		slog.String("rules", w.ports.Sets.Current().Version),
		slog.Int("shards", c.Notifier.Shard.Shards),
		slog.Int("prefetch_urgent", c.UrgentPrefetch),
		slog.Int("prefetch_bulk", c.BulkPrefetch),
		slog.Int("deferrals", c.Notifier.Claim),
	}, c.About...)...)
}

// consume decides events until ctx ends or the worker cannot go on. Where one queue
// cannot be consumed for good, no other is.
func (w *Worker) consume(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(w.inputs))
	var running sync.WaitGroup
	for i, in := range w.inputs {
		running.Go(func() {
			defer cancel()
			errs[i] = in.consumer.Run(ctx, in.chunks)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// deliver hands deliveries to their users. On an error, which comes when ctx ends or
// the worker stops, all that were not taken are unsettled.
func (w *Worker) deliver(ctx context.Context, deliveries []processor.Delivery) error {
	return w.notifier.Submit(ctx, deliveries)
}
