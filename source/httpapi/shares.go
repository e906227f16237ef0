package httpapi

import "sync"

// shares divides an amount among senders. A sender gets only what leaves as much
// free as the sender then holds: one alone gets a half, n of them at most the
// n+1st part each, and as much stays free for the next. What is free and cannot
// be divided goes to a sender who holds nothing.
type shares struct {
	mu   sync.Mutex
	free int64
	held map[string]int64 // of the senders who hold something
}

func newShares(amount int64) *shares { return &shares{free: amount, held: map[string]int64{}} }

// take reports whether the sender now holds n more.
func (s *shares) take(sender string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held[sender]
	if n > s.free || held > 0 && held+n > s.free-n {
		return false
	}
	s.free -= n
	s.held[sender] = held + n
	return true
}

// give takes n back from the sender.
func (s *shares) give(sender string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	if s.held[sender] -= n; s.held[sender] == 0 {
		delete(s.held, sender)
	}
}
