package breaker

import (
	"fmt"
	"sync"
	"time"
)

// A dependency fails in part where, of its calls in the last minutes, as many and as large a
// share have failed.
const (
	shareMinutes  = 10
	leastFailures = 4
	leastShare    = 0.2
)

// Share watches which share of a dependency's calls fails. A breaker sees failures in a row: it
// sees little of a dependency that is called twice a minute, and nothing of one that answers
// every second call. Its zero value has seen no call. It may be used from any goroutine.
type Share struct {
	mu      sync.Mutex
	minutes [shareMinutes]struct{ minute, calls, failed int64 }
	cause   error // of the last failure
}

// Note counts a call; nil is an answer.
func (s *Share) Note(err error) {
	minute := time.Now().Unix() / 60
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.minutes[minute%shareMinutes]
	if m.minute != minute {
		m.minute, m.calls, m.failed = minute, 0, 0
	}
	m.calls++
	if err != nil {
		m.failed++
		s.cause = err
	}
}

// Forget forgets all calls: an outage is over that was known as one.
func (s *Share) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minutes, s.cause = [shareMinutes]struct{ minute, calls, failed int64 }{}, nil
}

// Err returns how many of the last minutes' calls failed, with the last failure, and nil where
// they are too few to tell of.
func (s *Share) Err() error {
	now := time.Now().Unix() / 60
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls, failed int64
	for _, m := range s.minutes {
		if now-m.minute < shareMinutes {
			calls, failed = calls+m.calls, failed+m.failed
		}
	}
	if failed < leastFailures || float64(failed) < leastShare*float64(calls) {
		return nil
	}
	return fmt.Errorf("%d of %d calls failed in the last %d minutes: %w", failed, calls, shareMinutes, s.cause)
}
