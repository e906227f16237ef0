package eval

import (
	"slices"

	"keyfold/engine"
)

const (
	// SessionPause is the pause in milliseconds that ends a session where nothing else is said.
	SessionPause = 30 * 60 * 1000
	// SessionItems is how many different things of a session count: those that come first. A
	// crawler's session of thousands would have millions of pairs.
	SessionItems = 200
)

// Sessions parts the events of users, one user after the other and each in order, into
// sessions: lists of different things without a pause between them.
type Sessions struct {
	Pause engine.Millis
	Each  func(session []int32) // hears of each session that has a thing; its memory is not kept

	session []int32
	last    engine.Millis
}

// Add adds an event. A thing below 0 keeps the session going and is not in it.
func (s *Sessions) Add(at engine.Millis, thing int32) {
	if at-s.last > s.Pause {
		s.End()
	}
	s.last = at
	if thing >= 0 && len(s.session) < SessionItems && !slices.Contains(s.session, thing) {
		s.session = append(s.session, thing)
	}
}

// End ends the user's last session.
func (s *Sessions) End() {
	if len(s.session) > 0 {
		s.Each(s.session)
	}
	s.session = s.session[:0]
}
