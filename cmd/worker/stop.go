package worker

import (
	"context"
	"log/slog"

	"keyfold/cmd/consuming"
	"keyfold/cmd/shutdown"
	"keyfold/engine/failpoint"
)

// shutDown stops in order: see [consuming.Control.ShutDown].
func (w *Worker) shutDown(parent context.Context) error {
	return w.control.ShutDown(parent, w.ports.Clock, w.closeWindows,
		w.retries.Close, w.publisher.Close, func(context.Context) error { return w.store.Close() })
}

// closeWindows writes what the windows hold. The first call starts that, and every
// call waits for it.
func (w *Worker) closeWindows(parent context.Context) error {
	return w.windows.Do(func() error { return w.drain(parent) })
}

// drain closes the windows and waits until they are written. From now on no flush
// waits for the end of a configuration fault, or for a store known to be away.
func (w *Worker) drain(parent context.Context) error {
	failpoint.Reach(failpoint.Closing)
	ctx, cancel := w.ports.Clock.Context(parent, shutdown.CloseReserve)
	defer cancel()
	w.ports.Log.Info("worker stopping: closing its windows", slog.Int("held", w.pipeline.Router.Stats().HeldItems))
	w.control.Stop()
	w.breaker.Close()
	ctx, release := consuming.Patient(ctx, w.ports.Stacks, w.late)
	defer release()
	if w.prefetcher != nil {
		w.prefetcher.Release(ctx)
		defer w.prefetcher.Close()
	}
	return w.pipeline.Router.Drain(ctx)
}

// late tells that the stacks that follow are of what keeps the windows from being
// written.
func (w *Worker) late() {
	w.ports.Log.Error("windows not written in time: the stacks of the goroutines that work on them follow",
		slog.Int("held", w.pipeline.Router.Stats().HeldItems), slog.String("hint", "the broker delivers again what is not acknowledged"))
}
