package mongotest

import (
	"context"
	"sync"
	"time"
)

// hold is a switch that ends by itself after a while. A server has one for
// refusing connections and one for leaving everything unanswered.
type hold struct {
	mu       sync.Mutex
	released chan struct{} // nil while off; closed when it ends
	timer    *time.Timer
}

// set switches it, on for d where d > 0.
func (h *hold) set(on bool, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stop(h.timer)
	switch {
	case on && h.released == nil:
		h.released = make(chan struct{})
	case !on && h.released != nil:
		close(h.released)
		h.released = nil
	}
	if on && d > 0 {
		h.timer = time.AfterFunc(d, func() { h.set(false, 0) })
	}
}

// on returns a channel that is closed when it ends, nil while it is off.
func (h *hold) on() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.released
}

// pass waits while it is on and reports whether ctx lasted as long.
func (h *hold) pass(ctx context.Context) bool {
	if released := h.on(); released != nil {
		select {
		case <-released:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

func stop(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}
