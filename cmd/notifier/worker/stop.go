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
	connections := []func(context.Context) error{
		w.publisher.Close, w.dispatches.Close, func(context.Context) error { return w.ledger.Close() },
	}
	for _, in := range w.inputs {
		connections = append(connections, in.retries.Close)
	}
	return w.control.ShutDown(parent, w.ports.Clock, w.closeWindows, connections...)
}

// closeWindows decides what is held. The first call starts that, and every call waits
// for it.
func (w *Worker) closeWindows(parent context.Context) error {
	return w.windows.Do(func() error { return w.drain(parent) })
}

// drain takes nothing more and waits until what is held is decided. From now on no
// flush waits for the end of a configuration fault, or for a ledger known to be away.
func (w *Worker) drain(parent context.Context) error {
	failpoint.Reach(failpoint.Closing)
	ctx, cancel := w.ports.Clock.Context(parent, shutdown.CloseReserve)
	defer cancel()
	w.ports.Log.Info("worker stopping: deciding what it holds", slog.Int("held", w.notifier.Router.Stats().HeldItems))
	w.control.Stop()
	w.breaker.Close()
	ctx, release := consuming.Patient(ctx, w.ports.Stacks, func() {
		w.ports.Log.Error("events not decided in time: the stacks of the goroutines that work on them follow",
			slog.Int("held", w.notifier.Router.Stats().HeldItems), slog.String("hint", "the broker delivers again what is not acknowledged"))
	})
	defer release()
	return w.notifier.Stop(ctx)
}
