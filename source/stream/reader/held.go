package reader

import (
	"context"
	"sync"
)

// held bounds the bytes that are read and not settled.
type held struct {
	max int64

	mu    sync.Mutex
	bytes int64         // under mu
	freed chan struct{} // under mu: closed when bytes falls to max or below
}

func newHeld(limit int64) *held { return &held{max: limit, freed: make(chan struct{})} }

func (h *held) add(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	above := h.bytes > h.max
	h.bytes += n
	if above && h.bytes <= h.max {
		close(h.freed)
		h.freed = make(chan struct{})
	}
}

// await waits until no more than the bound is held. full is called each time it is.
func (h *held) await(ctx context.Context, full func()) error {
	for {
		h.mu.Lock()
		above, freed := h.bytes > h.max, h.freed
		h.mu.Unlock()
		if !above {
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

func (h *held) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}
