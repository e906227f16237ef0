package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"keyfold/engine"
	"keyfold/internal/shutdown"
)

// once runs a step of the stop once; every caller waits for its end. They wait on a
// channel and not in a [sync.Once]: a goroutine that waits for a mutex stops the
// clock of a synctest bubble.
type once struct {
	begin sync.Once
	ended chan struct{}
	err   error // set before ended is closed
}

// newOnce returns a step that has not begun.
func newOnce() *once { return &once{ended: make(chan struct{})} }

// do begins the step with the first call, waits for it and returns its error.
func (o *once) do(step func() error) error {
	o.begin.Do(func() {
		go func() {
			o.err = step()
			close(o.ended)
		}()
	})
	<-o.ended
	return o.err
}

// patient returns a context that ends when ctx does, once it is logged which of the servers
// give no answer, and that held events are not done: before what waits for the servers is
// interrupted, and no longer hangs. The context's cause says the same.
func (c *Control) patient(ctx context.Context, held func() int, servers ...shutdown.Peer) (patient context.Context, release func()) {
	patient, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		stacks := shutdown.Goroutines()
		silent := shutdown.Unanswered(stacks, servers)
		c.Log.Error("events in hand are not done at the end of the time for the stop: "+silent+" gives no answer",
			slog.String("server", silent), slog.Int("held", held()),
			slog.String("hint", fmt.Sprintf("none is lost: RabbitMQ delivers them again; a longer %s waits longer, and %s=debug shows the goroutines",
				shutdown.TimeoutSetting, shutdown.LevelSetting)))
		c.Log.Debug("goroutines at the end of the time for the stop", slog.String("stacks", stacks))
		interrupt(fmt.Errorf("%s gives no answer: %w", silent, context.Cause(ctx)))
	})
	return patient, func() {
		stop()
		interrupt(nil)
	}
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
	Held() int // events
}

// while runs consume until ctx ends or the windows fail. closeWindows is called when
// either happens: beside the end of the consumer, not after it, as the broker's
// answer to a cancelled consumer may take long or never come.
func while(parent context.Context, windows Windows, closeWindows func(), consume func(context.Context) error) error {
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
