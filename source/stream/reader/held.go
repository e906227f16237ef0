package reader

import (
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

// full returns nil where there is room, and otherwise what is closed once there is.
func (h *held) full() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bytes.Load() <= h.max { // add takes the lock where it falls below that
		return nil
	}
	return h.freed
}

func (h *held) now() int64 { return h.bytes.Load() }
