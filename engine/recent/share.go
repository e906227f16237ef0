package recent

import (
	"sync"
	"time"

	"keyfold/engine"
)

// Span is how far back a [Share] looks.
const Span = 15 * time.Minute

const step = time.Minute

// Share knows which part of the newest events had a property, by what was counted when such events
// came, at most once a minute. Where none comes it costs nothing. Its zero value has seen none.
type Share struct {
	mu      sync.Mutex
	samples []sample // of the last [Span], the oldest first
}

type sample struct {
	at        engine.Millis
	all, with int64
}

// Note keeps the counts, all since the start, as they are before an event with the property. They
// are read where they are wanted.
func (s *Share) Note(all, with func() int64) {
	now := engine.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.samples); n > 0 && now-s.samples[n-1].at < millis(step) {
		return
	}
	s.prune(now)
	s.samples = append(s.samples, sample{now, all(), with()})
}

// Since returns how many events came since the first one of the last [Span] that had the property,
// and how many had it, by the counts now.
func (s *Share) Since(all, with int64) (events, had int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prune(engine.Now()); len(s.samples) == 0 {
		return 0, 0
	}
	return all - s.samples[0].all, with - s.samples[0].with
}

func (s *Share) prune(now engine.Millis) {
	for len(s.samples) > 0 && now-s.samples[0].at > millis(Span) {
		s.samples = s.samples[1:]
	}
}

func millis(d time.Duration) engine.Millis { return engine.Millis(d.Milliseconds()) }
