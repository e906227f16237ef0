package reader

import (
	"context"
	"sync"
	"sync/atomic"
)

// held bounds the bytes that are read and not settled. Every event changes it: no lock is
// taken but where those go on that wait.
type held struct {
	max   int64
	bytes atomic.Int64

	mu    sync.Mutex
	freed chan struct{} // under mu: closed when bytes falls to max or below
}

func newHeld(limit int64) *held { return &held{max: limit, freed: make(chan struct{})} }

func (h *held) add(n int64) {
	now := h.bytes.Add(n)
	if now > h.max || now-n <= h.max {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.freed)
	h.freed = make(chan struct{})
}

// await waits until no more than the bound is held. full is called each time it is.
func (h *held) await(ctx context.Context, full func()) error {
	for {
		h.mu.Lock()
		freed := h.freed
		h.mu.Unlock()
		if h.bytes.Load() <= h.max { // asked after freed: what falls below it later closes that one
			return nil
		}
		full()
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *held) now() int64 { return h.bytes.Load() }
