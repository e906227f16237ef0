package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"keyfold/cmd/consuming"
	"keyfold/cmd/shutdown"
	"keyfold/engine/failpoint"
)

// shutDown decides what is held, acknowledges it, and closes the connections, in this
// order. One deadline bounds all three: it counts from the moment the worker was told
// to stop. The broker delivers again what is not settled by then.
func (w *Worker) shutDown(parent context.Context) error {
	ctx, cancel := w.ports.Clock.Context(parent, shutdown.CloseReserve)
	defer cancel()
	closed := w.closeWindows(parent)
	err := errors.Join(closed, w.acknowledge(ctx, closed == nil), w.closeConnections(ctx))
	w.ports.Log.Info("worker stopped")
	return err
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

// acknowledge closes the consumers side by side. Where not all events were decided,
// the others get no verdict, and the consumers wait only for acknowledgements and
// copies that are being sent.
func (w *Worker) acknowledge(ctx context.Context, all bool) error {
	if !all {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, shutdown.ConnCloseTimeout)
		defer cancel()
	}
	var closing sync.WaitGroup
	errs := make([]error, len(w.inputs))
	for i, in := range w.inputs {
		closing.Go(func() { errs[i] = in.consumer.Close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// closeConnections closes them side by side.
func (w *Worker) closeConnections(ctx context.Context) error {
	closers := []func(context.Context) error{
		w.publisher.Close, w.dispatches.Close, func(context.Context) error { return w.ledger.Close() },
	}
	for _, in := range w.inputs {
		closers = append(closers, in.retries.Close)
	}
	return consuming.CloseSideBySide(ctx, closers...)
}
