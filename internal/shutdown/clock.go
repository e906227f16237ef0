package shutdown

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine/cure"
)

const (
	// CloseReserve is the part of the shutdown timeout kept for closing connections
	// after the events in hand are written.
	CloseReserve = 4 * time.Second
	// ConnCloseTimeout bounds a clean connection close.
	ConnCloseTimeout = time.Second
)

// Clock counts the time a program has for stopping. It may be used from any
// goroutine.
type Clock struct {
	limit time.Duration
	once  sync.Once
	began chan struct{} // closed by Start
	end   time.Time     // set before began is closed
}

// NewClock returns a clock that stands still until it is started.
func NewClock(limit time.Duration) *Clock {
	return &Clock{limit: limit, began: make(chan struct{})}
}

// Start has the time run. The first call counts.
func (c *Clock) Start() {
	c.once.Do(func() {
		c.end = time.Now().Add(c.limit)
		close(c.began)
	})
}

// Context starts the clock and returns a context that ends reserve before the
// time is up, and no sooner than after half of it: reserve is for what follows.
// The context does not end with parent, only carries its values: parent has
// ended when a program stops.
func (c *Clock) Context(parent context.Context, reserve time.Duration) (context.Context, context.CancelFunc) {
	c.Start()
	return context.WithDeadline(context.WithoutCancel(parent), c.end.Add(-min(reserve, c.limit/2)))
}

// The settings that faults of a stop name.
const (
	TimeoutSetting cure.Name = "shutdown.Timeout"
	LevelSetting   cure.Name = "shutdown.LogLevel"
)

// OverdueError says that a program did not stop in time.
type OverdueError struct{ Limit time.Duration }

// Error says what that means and the cure.
func (e *OverdueError) Error() string {
	return fmt.Sprintf("not stopped within %v: ended all the same; nothing is lost, what was not "+
		"acknowledged comes again (the log says what gave no answer, with %s=debug by the goroutines "+
		"that hang; a longer %s gives it more time)", e.Limit, LevelSetting, TimeoutSetting)
}

// Run calls work and returns its error. The clock starts at the latest when ctx
// ends. If the time is up before work returns, Run logs at DEBUG what the program's
// goroutines are doing, leaves them and returns an [*OverdueError]: the caller is
// to end the process.
func (c *Clock) Run(ctx context.Context, log *slog.Logger, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		c.Start()
	case <-c.began:
	}
	<-c.began
	timer := time.NewTimer(time.Until(c.end))
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		inTime(func() { log.Debug("goroutines that hang", slog.String("stacks", Goroutines())) })
		return &OverdueError{c.limit}
	}
}

// printTimeout is how long a program that ends waits until its last output is read.
const printTimeout = time.Second

// Print writes text and waits no longer than a second for that: a pipe without a
// reader must not keep a program from ending.
func Print(w io.Writer, text string) {
	inTime(func() { _, _ = io.WriteString(w, text) }) // nowhere to tell
}

func inTime(write func()) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		write()
	}()
	select {
	case <-written:
	case <-time.After(printTimeout):
	}
}
