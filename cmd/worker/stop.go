package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"keyfold/cmd/shutdown"
	"keyfold/engine/failpoint"
)

// shutDown closes the windows, acknowledges what was written, and closes the
// connections, in this order. One deadline bounds all three: it counts from the
// moment the worker was told to stop. The broker delivers again what is not settled
// by then.
func (w *Worker) shutDown(parent context.Context) error {
	ctx, cancel := w.ports.Clock.Context(parent, shutdown.CloseReserve)
	defer cancel()
	closed := w.closeWindows(parent)
	err := errors.Join(closed, w.acknowledge(ctx, closed == nil), w.closeConnections(ctx))
	w.ports.Log.Info("worker stopped")
	return err
}

// acknowledge closes the consumer. Where not all windows were written, the events
// left in them get no verdict, and the consumer waits only for acknowledgements and
// copies that are being sent.
func (w *Worker) acknowledge(ctx context.Context, all bool) error {
	if !all {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, shutdown.ConnCloseTimeout)
		defer cancel()
	}
	return w.consumer.Close(ctx)
}

// closeWindows writes what the windows hold. The first call starts that, and every
// call waits for it. They wait on a channel and not in a [sync.Once]: a goroutine
// that waits for a mutex stops the clock of a synctest bubble.
func (w *Worker) closeWindows(parent context.Context) error {
	w.closing.Do(func() {
		go func() {
			w.drained = w.drain(parent)
			close(w.closed)
		}()
	})
	<-w.closed
	return w.drained
}

// drain closes the windows and waits until they are written. From now on no flush
// waits for the end of a configuration fault, or for a store known to be away.
func (w *Worker) drain(parent context.Context) error {
	failpoint.Reach(failpoint.Closing)
	ctx, cancel := w.ports.Clock.Context(parent, shutdown.CloseReserve)
	defer cancel()
	w.ports.Log.Info("worker stopping: closing its windows", slog.Int("held", w.pipeline.Router.Stats().HeldItems))
	w.fault.stop()
	w.breaker.Close()
	if w.ports.Stacks != nil {
		patient, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
		defer interrupt(nil)
		defer context.AfterFunc(ctx, func() {
			w.dump() // before the flushes are interrupted, and no longer hang
			interrupt(context.Cause(ctx))
		})()
		ctx = patient
	}
	if w.prefetcher != nil {
		w.prefetcher.Release(ctx)
		defer w.prefetcher.Close()
	}
	return w.pipeline.Router.Drain(ctx)
}

// dump shows what keeps the windows from being written.
func (w *Worker) dump() {
	w.ports.Log.Error("windows not written in time: the stacks of the goroutines that work on them follow",
		slog.Int("held", w.pipeline.Router.Stats().HeldItems), slog.String("hint", "the broker delivers again what is not acknowledged"))
	shutdown.Print(w.ports.Stacks, shutdown.Goroutines())
}

// closeConnections closes them side by side: each may be to a server that does not
// answer.
func (w *Worker) closeConnections(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdown.ConnCloseTimeout)
	defer cancel()
	var closing sync.WaitGroup
	var errs [3]error
	closing.Go(func() { errs[0] = w.retries.Close(ctx) })
	closing.Go(func() { errs[1] = w.publisher.Close(ctx) })
	closing.Go(func() { errs[2] = w.store.Close() })
	closing.Wait()
	return errors.Join(errs[:]...)
}
