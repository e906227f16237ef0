package processor

import (
	"math/rand/v2"
	"sync"
)

// staleness is the share of cached profiles that turned out, when they were written, to have
// been written by another worker since. Workers that compete for one queue write the same
// users in turn: of two, each finds half of its cache stale. To read first costs less then
// than a write that is refused and the read after it.
type staleness struct {
	mu    sync.Mutex
	share float64 // of late; under mu
}

const (
	// mostStale is the share from which on profiles are read before they are written. A refused
	// write costs about as much as a read, so that it pays from a half on; below that it saves
	// the refusals, and their attempts.
	mostStale = 0.25
	// staleMemory is of how many writes the share tells.
	staleMemory = 32
	// trials is of how many cached profiles one is used all the same, to see whether it is right.
	trials = 32
)

// note counts the write of a profile that the cache held.
func (s *staleness) note(stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := 0.0
	if stale {
		now = 1
	}
	s.share += (now - s.share) / staleMemory
}

// trusted reports whether a cached profile is to be used.
func (s *staleness) trusted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.share < mostStale || rand.N(trials) == 0
}
