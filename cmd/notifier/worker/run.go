package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"keyfold/cmd/consuming"
	"keyfold/engine/notify/processor"
	"keyfold/source/rabbit"
)

// Run works until ctx ends or the worker cannot go on, and then stops in order. It
// returns nil where it was told to stop and everything it held was settled. The
// clock bounds each step of the stop, but not a ledger that does not close: see
// [keyfold/cmd/shutdown.Clock.Run].
func (w *Worker) Run(ctx context.Context) error {
	var err error
	if w.ledger, err = consuming.AwaitStore(ctx, w.ports.Log, w.ports.OpenLedger); err != nil {
		return consuming.UnlessStopped(ctx, err)
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
	if err = w.notifier.Start(ctx); err == nil {
		err = w.consume(ctx)
	}
	cancel()
	checking.Wait()
	return errors.Join(err, w.shutDown(ctx))
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
func (w *Worker) consume(parent context.Context) error {
	return consuming.While(parent, w.notifier.Router, func() { _ = w.closeWindows(parent) }, func(ctx context.Context) error {
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
	})
}

// deliver hands deliveries to their users. On an error, which comes when ctx ends or
// the worker stops, all that were not taken are unsettled.
func (w *Worker) deliver(ctx context.Context, deliveries []processor.Delivery) error {
	const chunk = 256 // which the router takes whole or not at all
	for len(deliveries) > 0 {
		part := deliveries[:min(chunk, len(deliveries))]
		if err := w.notifier.Submit(ctx, part); err != nil {
			for i := range deliveries {
				deliveries[i].Settler.Settle(processor.Verdict{Outcome: processor.Unsettled, Err: err})
			}
			return err
		}
		deliveries = deliveries[len(part):]
	}
	return nil
}
