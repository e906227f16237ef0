package consuming

import (
	"context"
	"errors"
	"io"
	"sync"

	"keyfold/cmd/shutdown"
	"keyfold/engine"
)

// Once runs a step of the stop once; every caller waits for its end. They wait on a
// channel and not in a [sync.Once]: a goroutine that waits for a mutex stops the
// clock of a synctest bubble.
type Once struct {
	begin sync.Once
	ended chan struct{}
	err   error // set before ended is closed
}

// NewOnce returns a step that has not begun.
func NewOnce() *Once { return &Once{ended: make(chan struct{})} }

// Do begins the step with the first call, waits for it and returns its error.
func (o *Once) Do(step func() error) error {
	o.begin.Do(func() {
		go func() {
			o.err = step()
			close(o.ended)
		}()
	})
	<-o.ended
	return o.err
}

// Patient returns a context that ends when ctx does, once the stacks of the goroutines
// are written: before what they wait for is interrupted, and they no longer hang. log
// is called before. Without a writer it is ctx.
func Patient(ctx context.Context, stacks io.Writer, log func()) (patient context.Context, release func()) {
	if stacks == nil {
		return ctx, func() {}
	}
	patient, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		log()
		shutdown.Print(stacks, shutdown.Goroutines())
		interrupt(context.Cause(ctx))
	})
	return patient, func() {
		stop()
		interrupt(nil)
	}
}

// ShutDown closes the windows, acknowledges what became of their events, and closes the
// connections, in this order. One deadline bounds all three: it counts from the moment
// the worker was told to stop. The broker delivers again what is not settled by then.
func (c *Control) ShutDown(parent context.Context, clock *shutdown.Clock, closeWindows func(context.Context) error, connections ...func(context.Context) error) error {
	ctx, cancel := clock.Context(parent, shutdown.CloseReserve)
	defer cancel()
	closed := closeWindows(parent)
	err := errors.Join(closed, c.acknowledge(ctx, closed == nil), closeInTime(ctx, connections...))
	c.Log.Info("worker stopped")
	return err
}

// acknowledge closes the consumers. Where not all events were written or decided, the
// others get no verdict, and the consumers wait only for acknowledgements and copies
// that are being sent.
func (c *Control) acknowledge(ctx context.Context, all bool) error {
	var closers []func(context.Context) error
	for _, consumer := range c.Consumers {
		closers = append(closers, consumer.Close)
	}
	if all {
		return CloseSideBySide(ctx, closers...)
	}
	return closeInTime(ctx, closers...)
}

// closeInTime is CloseSideBySide within the time for connections.
func closeInTime(ctx context.Context, closers ...func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, shutdown.ConnCloseTimeout)
	defer cancel()
	return CloseSideBySide(ctx, closers...)
}

// CloseSideBySide closes connections at once: each may be to a server that does not
// answer.
func CloseSideBySide(ctx context.Context, closers ...func(context.Context) error) error {
	var closing sync.WaitGroup
	errs := make([]error, len(closers))
	for i, closer := range closers {
		closing.Go(func() { errs[i] = closer(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// Windows are the events that a worker holds.
type Windows interface {
	Failed() <-chan struct{}
	Err() error
}

// While runs consume until ctx ends or the windows fail. closeWindows is called when
// either happens: beside the end of the consumer, not after it, as the broker's
// answer to a cancelled consumer may take long or never come.
func While(parent context.Context, windows Windows, closeWindows func(), consume func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	go func() {
		select {
		case <-windows.Failed():
			cancel(windows.Err())
		case <-ctx.Done():
		}
	}()
	defer context.AfterFunc(ctx, closeWindows)()
	err := consume(ctx)
	if failure := windows.Err(); failure != nil {
		return failure
	}
	if engine.KindOf(err) == engine.Configuration {
		return err
	}
	return UnlessStopped(parent, err)
}
