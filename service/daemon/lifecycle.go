package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"keyfold/engine/breaker"
	"keyfold/engine/failpoint"
	"keyfold/internal/shutdown"
)

// Lifecycle is the life of a worker from its first delivery to its end. It is used once.
type Lifecycle struct {
	Control *Control
	Clock   *shutdown.Clock
	Breaker *breaker.Breaker // of the store
	Windows Windows
	// Closing says in the log what is done with the held events at the stop.
	Closing string
	// Servers are those that held events may wait for.
	Servers []shutdown.Peer
	// Consume delivers events into the windows until its context ends.
	Consume func(context.Context) error
	// Drain closes the windows and waits until each held event has its verdict.
	Drain func(context.Context) error
	// Connections are closed last, side by side.
	Connections []Connection

	drained *once
}

// Connection is what is closed at the end of a worker.
type Connection struct {
	Name  string // in errors
	Close func(context.Context) error
}

// Run consumes until ctx ends or the worker cannot go on, and then stops in order. It
// returns nil where it was told to stop and everything it held was settled.
func (l *Lifecycle) Run(ctx context.Context) error {
	l.drained = newOnce()
	err := while(ctx, l.Windows, func() { _ = l.closeWindows(ctx) }, l.Consume)
	return errors.Join(err, l.shutDown(ctx))
}

// closeWindows drains the windows. The first call starts that, and every call waits for
// it. From now on no flush waits for the end of a configuration fault, or for a store
// known to be away.
func (l *Lifecycle) closeWindows(parent context.Context) error {
	return l.drained.do(func() error {
		failpoint.Reach(failpoint.Closing)
		ctx, cancel := l.Clock.Context(parent, shutdown.CloseReserve)
		defer cancel()
		l.Control.Log.Info("worker stopping: "+l.Closing, slog.Int("held", l.Windows.Held()))
		l.Control.Stop()
		l.Breaker.Close()
		ctx, release := l.Control.patient(ctx, l.Windows.Held, l.Servers...)
		defer release()
		return l.Drain(ctx)
	})
}

// shutDown closes the windows, acknowledges what became of their events, and closes the
// connections, in this order. One deadline bounds all three: it counts from the moment
// the worker was told to stop. The broker delivers again what is not settled by then.
func (l *Lifecycle) shutDown(parent context.Context) error {
	ctx, cancel := l.Clock.Context(parent, shutdown.CloseReserve)
	defer cancel()
	closers := make([]func(context.Context) error, len(l.Connections))
	for i, c := range l.Connections {
		closers[i] = func(ctx context.Context) error {
			if err := c.Close(ctx); err != nil {
				return fmt.Errorf("close %s: %w", c.Name, err)
			}
			return nil
		}
	}
	closed := l.closeWindows(parent)
	err := errors.Join(closed, l.Control.acknowledge(ctx, closed == nil), closeInTime(ctx, closers...))
	l.Control.Log.Info("worker stopped")
	return err
}
