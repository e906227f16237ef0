package notify

import (
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
)

// Fold makes of the state what it is after the record. A state is the fold over
// the user's records of the horizon, in their order.
func (s *State) Fold(r *Record) {
	if r.Outcome == Postponed {
		return
	}
	s.DecidedAt = r.DecidedAt
	if r.Outcome == Never && r.Reasons[0] == ReasonUserErased {
		return
	}
	s.unmark(r.EventID)
	if r.Outcome == Now {
		s.count(r)
	}
	if r.Outcome != Never && r.Facts.Step == 0 {
		s.Marks = append(s.Marks, Mark{EventID: r.EventID, Type: r.Type, At: r.DecidedAt, Print: r.Print})
	}
	s.reserve(r)
	s.prune(r.DecidedAt - r.Facts.Horizon)
}

// count counts a NOW, and a digest once, whatever the number of its items.
func (s *State) count(r *Record) {
	sent := r.Facts.Sent
	sent.At, sent.Type, sent.Channels, sent.Source, sent.Follow = r.DecidedAt, r.Type, SetOf(r.Channels), SourceHash(r.Source), r.Facts.Step > 0
	sent.Item = r.DigestID != uuid.Nil && r.DigestID == s.LastDigest
	if r.DigestID != uuid.Nil {
		s.LastDigest = r.DigestID
	}
	known, counted := sent.Item && s.lastMessage(func(one *Sent) bool { return *one == sent || !one.Item && sent.is(one) }), false
	if sent.Item {
		counted = s.lastMessage(func(one *Sent) bool { return !one.Follow })
	}
	if !sent.Follow {
		s.LastSend[r.Type] = r.DecidedAt
		if !counted {
			s.Sends = append(s.Sends, r.DecidedAt)
		}
	}
	if !known {
		s.Sent = append(s.Sent, sent)
	}
}

// is reports whether an item says the same as the first entry of its message.
func (s *Sent) is(first *Sent) bool {
	one := *first
	one.Item = true
	return one == *s
}

// lastMessage reports whether an entry of the newest message is so.
func (s *State) lastMessage(is func(*Sent) bool) bool {
	for i := len(s.Sent) - 1; i >= 0; i-- {
		if is(&s.Sent[i]) {
			return true
		}
		if !s.Sent[i].Item {
			break
		}
	}
	return false
}

// unmark removes the mark of an event's earlier turn.
func (s *State) unmark(event uuid.UUID) {
	for i := len(s.Marks) - 1; i >= 0; i-- {
		if s.Marks[i].EventID == event {
			s.Marks = slices.Delete(s.Marks, i, i+1)
			return
		}
	}
}

// prune drops what is of an instant or before it, and the oldest entries over the
// bounds.
func (s *State) prune(instant engine.Millis) {
	old := max(0, len(s.Sends)-MaxSends)
	for old < len(s.Sends) && s.Sends[old] <= instant {
		old++
	}
	s.Sends = slices.Delete(s.Sends, 0, old)
	s.pruneMarks(instant)
	s.pruneSent(instant)
	old = 0
	for old < len(s.Reserved) && s.Reserved[old].At <= instant {
		old++
	}
	s.Reserved = s.Reserved[:min(len(s.Reserved), old+MaxSends)] // of two that were merged there may be more
	if s.Reserved = slices.Delete(s.Reserved, 0, old); len(s.Reserved) == 0 {
		s.Reserved = nil // as it is read
	}
	for t := range s.LastSend {
		if s.LastSend[t] <= instant {
			s.LastSend[t] = 0
		}
	}
}

// pruneMarks counts each type's marks for itself: others push none out.
func (s *State) pruneMarks(instant engine.Millis) {
	var newer [typeCount]int
	kept := len(s.Marks)
	for i := len(s.Marks) - 1; i >= 0; i-- {
		m := s.Marks[i]
		if newer[m.Type]++; m.At <= instant || newer[m.Type] > MaxMarks {
			continue
		}
		if newer[m.Type] > MaxNear {
			m.Print = m.Print.Exact()
		}
		kept--
		s.Marks[kept] = m
	}
	s.Marks = slices.Delete(s.Marks, 0, kept)
}

// pruneSent counts each type's entries for itself: others push none out.
func (s *State) pruneSent(instant engine.Millis) {
	var newer [typeCount]int
	kept := len(s.Sent)
	for i := len(s.Sent) - 1; i >= 0; i-- {
		if newer[s.Sent[i].Type]++; s.Sent[i].At <= instant || newer[s.Sent[i].Type] > MaxSends {
			continue
		}
		kept--
		s.Sent[kept] = s.Sent[i]
	}
	s.Sent = slices.Delete(s.Sent, 0, kept)
}

// Clone returns a copy that shares nothing.
func (s *State) Clone() *State {
	c := *s
	c.Sends, c.Marks, c.Reserved, c.Sent = slices.Clone(s.Sends), slices.Clone(s.Marks), slices.Clone(s.Reserved), slices.Clone(s.Sent)
	return &c
}
