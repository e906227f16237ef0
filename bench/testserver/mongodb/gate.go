package mongotest

import (
	"context"
	"sync"
	"time"
)

// gate holds up the whole server: it refuses new connections, or takes them and
// leaves everything unanswered.
type gate struct {
	mu       sync.Mutex
	refusing bool
	open     chan struct{} // closed while nothing is held up
	accepts  *time.Timer   // ends refusing
	resumes  *time.Timer   // ends a pause
}

func (g *gate) init() {
	g.open = make(chan struct{})
	close(g.open)
}

func (g *gate) refuses() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusing
}

// refuse begins or ends refusing connections, for d where d > 0.
func (g *gate) refuse(on bool, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusing = on
	stop(g.accepts)
	if on && d > 0 {
		g.accepts = time.AfterFunc(d, func() { g.refuse(false, 0) })
	}
}

// pause begins or ends leaving everything unanswered, for d where d > 0.
func (g *gate) pause(on bool, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	isOpen := false
	select {
	case <-g.open:
		isOpen = true
	default:
	}
	switch {
	case on && isOpen:
		g.open = make(chan struct{})
	case !on && !isOpen:
		close(g.open)
	}
	stop(g.resumes)
	if on && d > 0 {
		g.resumes = time.AfterFunc(d, func() { g.pause(false, 0) })
	}
}

// pass waits while the server is paused and reports whether ctx lasted as long.
func (g *gate) pass(ctx context.Context) bool {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	stop(g.accepts)
	stop(g.resumes)
}

func stop(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}
