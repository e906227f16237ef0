package processor

import "sync"

// faultDetector tells a fault of some users from one that meets most users, which is the
// store's or the settings'. Every user that is fine earns credit, every new one
// that is not uses it up. Users that fail again and again use none: one broken
// document stays one, however often its events come.
type faultDetector struct {
	// cost is how many users that are fine stand against one that is not.
	cost int

	mu      sync.Mutex
	credit  int
	failing map[int32]struct{}
}

const (
	// several is the least number of users that is no coincidence.
	several = 3
	// maxCredit bounds how much better times count.
	maxCredit = 32
	// maxFailing bounds the memory.
	maxFailing = 4096
)

// healthy notes users that nothing is wrong with.
func (s *faultDetector) healthy(users ...int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credit = min(s.credit+len(users), maxCredit)
	if len(s.failing) == 0 {
		return
	}
	for _, user := range users {
		delete(s.failing, user)
	}
}

// widespread notes users that something is wrong with, and reports whether they are too
// many for faults of their own.
func (s *faultDetector) widespread(users ...int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing == nil || len(s.failing) > maxFailing {
		s.failing = map[int32]struct{}{}
	}
	for _, user := range users {
		if _, known := s.failing[user]; !known {
			s.failing[user] = struct{}{}
			s.credit = max(s.credit-s.cost, 0)
		}
	}
	return s.credit == 0 && len(s.failing) >= several
}
