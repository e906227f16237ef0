package notifyoracle

import (
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// State is what the past decisions of a user come to.
type State struct {
	DecidedAt  engine.Millis
	Sends      []engine.Millis // one per notification, and one per digest
	LastSend   [notify.Digest + 1]engine.Millis
	Marks      []Mark // events that were sent or are deferred, in the order of their decisions
	LastDigest uuid.UUID
	Slots      []Slot    // in their order
	Sent       []Send    // what limits count, in the order of their decisions
	counted    uuid.UUID // the digest that is in Sends
}

// Mark is an event that was sent or is deferred. Of an old one only the same content is
// found again.
type Mark struct {
	*Decision
	Old bool
}

// State walks over all of the user's decisions, each once. It is good until the next
// decision.
func (u *User) State() *State {
	for ; u.walked < len(u.Past); u.walked++ {
		u.state.add(&u.Past[u.walked])
	}
	return &u.state
}

func (s *State) add(d *Decision) {
	if d.Outcome == notify.Postponed {
		return // nothing is recorded
	}
	s.DecidedAt = d.DecidedAt
	if slices.Equal(d.Reasons, []string{notify.ReasonUserErased}) {
		return
	}
	if d.Outcome == notify.Now {
		s.addSend(d)
	}
	s.keepSlots(d)
	// The record of an event replaces the event's own mark; a NEVER leaves none, nor does a
	// follow-up.
	s.Marks = slices.DeleteFunc(s.Marks, func(m Mark) bool { return m.EventID == d.EventID })
	if (d.Outcome == notify.Now || d.Outcome == notify.Later) && !d.Send.Follow {
		s.Marks = append(s.Marks, Mark{Decision: d})
	}
	s.prune(d.DecidedAt - d.Horizon)
}

// addSend takes in a NOW. A follow-up counts for limits of its channels alone, and a message
// once, where it has more than follow-ups.
func (s *State) addSend(d *Decision) {
	sent := d.Send
	sent.Message = d.DigestID
	if d.DigestID != uuid.Nil {
		sent.Item = d.DigestID == s.LastDigest
		s.LastDigest = d.DigestID
	}
	if !slices.ContainsFunc(s.Sent, sent.addsNothingTo) {
		s.Sent = append(s.Sent, sent)
	}
	if sent.Follow {
		return
	}
	if d.DigestID == uuid.Nil || d.DigestID != s.counted {
		s.Sends = append(s.Sends, d.DecidedAt)
		s.counted = d.DigestID
	}
	s.LastSend[d.Type] = d.DecidedAt
}

// prune drops what is as old as an instant or older, and what is past the bounds.
func (s *State) prune(old engine.Millis) {
	s.Sends = slices.DeleteFunc(s.Sends, func(at engine.Millis) bool { return at <= old })
	s.Marks = slices.DeleteFunc(s.Marks, func(m Mark) bool { return m.DecidedAt <= old })
	s.Slots = slices.DeleteFunc(s.Slots, func(o Slot) bool { return o.At <= old })
	s.Slots = s.Slots[:min(len(s.Slots), notify.MaxSends)] // of two that were merged there may be more: the earliest stay
	s.Sent = slices.DeleteFunc(s.Sent, func(sent Send) bool { return sent.At <= old })
	for i := range s.LastSend {
		if s.LastSend[i] <= old {
			s.LastSend[i] = 0
		}
	}
	s.Sends = s.Sends[max(0, len(s.Sends)-notify.MaxSends):]
	s.keepNewest()
	newest := map[notify.EventType]int{}
	var kept []Mark
	for _, m := range slices.Backward(s.Marks) {
		if newest[m.Type]++; newest[m.Type] <= notify.MaxMarks {
			m.Old = m.Old || newest[m.Type] > notify.MaxNear
			kept = append(kept, m)
		}
	}
	slices.Reverse(kept)
	s.Marks = kept
}

// keepNewest drops what limits count beyond the newest 256 of a type.
func (s *State) keepNewest() {
	newest := map[notify.EventType]int{}
	var kept []Send
	for _, sent := range slices.Backward(s.Sent) {
		if newest[sent.Type]++; newest[sent.Type] <= notify.MaxSends {
			kept = append(kept, sent)
		}
	}
	slices.Reverse(kept)
	s.Sent = kept
}

// count returns the number of sends in the window that ends at an instant: (at - w, at].
func (s *State) count(w, at engine.Millis) (n int) {
	for _, send := range s.Sends {
		if send > at-w && send <= at {
			n++
		}
	}
	return n
}
