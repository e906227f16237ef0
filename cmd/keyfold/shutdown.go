package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"keyfold/cmd/shutdown"
	"keyfold/engine/failpoint"
)

const (
	// farewell is what of the shutdown timeout is kept for closing what the
	// windows were written to: a moment's grace for handlers that were
	// interrupted, and one for each connection.
	farewell = 4 * time.Second
	// parting is how long a connection that has nothing more to say may take to
	// close in order.
	parting = time.Second
	// glance is how long before handlers are interrupted the hanging ones are
	// looked at: afterwards they hang no more.
	glance = 50 * time.Millisecond
)

// shutDown closes the windows, acknowledges what was written, and closes the
// connections, in this order and against one deadline, which counts from the
// moment the program was told to stop. What is not settled by then goes back to
// the broker. That the process ends in time whatever hangs here is the clock's
// affair: see [shutdown.Clock.Run].
func (w *worker) shutDown() error {
	ctx, cancel := w.clock.Context(w.ctx, farewell)
	defer cancel()
	closed := w.closeWindows()
	err := errors.Join(closed, w.acknowledge(ctx, closed == nil), w.part(ctx))
	w.log.Info("stopped")
	return err
}

// acknowledge closes the consumer. Where the windows were not all written, what is
// left in them gets no verdict any more, and nobody waits for one: a moment is for
// the acknowledgements and copies that are on their way.
func (w *worker) acknowledge(ctx context.Context, all bool) error {
	if !all {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, parting)
		defer cancel()
	}
	return w.consumer.Close(ctx)
}

// drain closes the windows and waits until they are written; nobody waits for a
// cure or for a store known to be away any more. What keeps the windows from being
// written until the deadline is shown.
func (w *worker) drain() error {
	failpoint.Reach(failpoint.Closing)
	ctx, cancel := w.clock.Context(w.ctx, farewell)
	defer cancel()
	w.log.Info("stopping: closing windows", slog.Int("held", w.pipeline.Router.Stats().HeldItems))
	w.faults.stop()
	w.breaker.Close()
	deadline, _ := ctx.Deadline()
	watch := time.AfterFunc(time.Until(deadline)-glance, func() {
		w.log.Error("windows are not written in time; what is not acknowledged is delivered again: "+
			"the goroutines that work on them follow", slog.Int("held", w.pipeline.Router.Stats().HeldItems))
		shutdown.Print(w.err, shutdown.Goroutines())
	})
	defer watch.Stop()
	if w.anteroom != nil {
		w.anteroom.Open(ctx)
		defer w.anteroom.Close()
	}
	return w.pipeline.Router.Drain(ctx)
}

// part closes the connections that nothing needs any more, side by side: each
// may be to a server that does not answer.
func (w *worker) part(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, parting)
	defer cancel()
	var closing sync.WaitGroup
	var errs [3]error
	closing.Go(func() { errs[0] = w.retries.Close(ctx) })
	closing.Go(func() { errs[1] = w.publisher.Close(ctx) })
	closing.Go(func() { errs[2] = w.store.Close() })
	closing.Wait()
	return errors.Join(errs[:]...)
}
