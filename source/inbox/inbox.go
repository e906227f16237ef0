package inbox

import (
	"context"
	"fmt"
	"sync"
)

// Inbox is a durable inbox. Its methods may be called from any goroutine.
//
// Life: New, Start, Recover, then Add; at the end Stop, let everything that was
// delivered be settled, Close, and only then close the writer.
type Inbox struct {
	config Config
	ports  Ports

	// order is held while a mark function is queued, so that a Settle that
	// finds one queued knows that it has its place already. It is taken before
	// mu; the writer's goroutine takes mu only.
	order sync.Mutex

	mu    sync.Mutex
	marks marks
	retry retries
	open  int // deliveries given out or waiting for a retry
	stats Stats
	// quiet is closed, and replaced by the next wait, when open or the marks
	// that are not durable reach zero.
	quiet chan struct{}
}

// New creates the tables where they are missing and returns an inbox on them.
func New(ctx context.Context, ports Ports, config Config) (*Inbox, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if err := Migrate(ctx, ports.Writer); err != nil {
		return nil, err
	}
	ports.Log = ports.Log.With("component", "inbox")
	return &Inbox{
		config: config,
		ports:  ports,
		retry:  retries{wake: make(chan struct{}, 1)},
		stats:  Stats{Dead: map[string]int64{}},
	}, nil
}

// Idle waits until nothing is in flight or waiting for a retry and every mark
// is durable. Held events do not count: they stay pending in the file.
func (in *Inbox) Idle(ctx context.Context) error {
	return in.wait(ctx, func() bool { return in.open == 0 && in.marks.volatile == 0 })
}

// Close waits until every mark is durable, at most until ctx ends; then it gives
// up on the rest. Their events are still pending in the file and will be found
// folded at the next start.
func (in *Inbox) Close(ctx context.Context) error {
	err := in.wait(ctx, func() bool { return in.marks.volatile == 0 })
	in.mu.Lock()
	defer in.mu.Unlock()
	in.marks.closed = true
	if in.marks.again != nil {
		in.marks.again.Stop()
	}
	if err != nil {
		return fmt.Errorf("inbox: %d verdicts were not written; their events are delivered again at the next start: %w",
			in.marks.volatile, err)
	}
	return nil
}

// wait returns once done, which is called under mu, holds.
func (in *Inbox) wait(ctx context.Context, done func() bool) error {
	for {
		in.mu.Lock()
		if done() {
			in.mu.Unlock()
			return nil
		}
		if in.quiet == nil {
			in.quiet = make(chan struct{})
		}
		quiet := in.quiet
		in.mu.Unlock()
		select {
		case <-quiet:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wakeWaiters lets wait look again. The caller holds mu.
func (in *Inbox) wakeWaiters() {
	if in.quiet != nil && (in.open == 0 || in.marks.volatile == 0) {
		close(in.quiet)
		in.quiet = nil
	}
}

// release takes a delivery out of those in flight, once. The caller holds mu.
func (in *Inbox) release(e *entry) {
	if e.open {
		e.open = false
		in.open--
		in.wakeWaiters()
	}
}
