package notifyoracle

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Send is what limits ask of one event that was sent, or that a slot is kept for.
type Send struct {
	At       engine.Millis
	Type     notify.EventType
	Source   string
	Channels []notify.Channel
	Keys     map[string]string // values of the limits' keys, by the keys' names; without those of which a value is missing
	Message  uuid.UUID         // the digest that it is an item of
	Item     bool              // another item of the message stands before it
	Follow   bool              // of a follow-up
}

// sendOf returns what limits ask of an event.
func sendOf(set *Set, e Event, at engine.Millis, channels []notify.Channel) Send {
	s := Send{At: at, Type: e.Type, Source: e.Source, Channels: channels, Keys: map[string]string{}, Follow: e.Follows != nil}
	for i := range set.Policy.Limits {
		if names, values, known := keyOf(&set.Policy.Limits[i], e); known {
			s.Keys[names] = values
		}
	}
	return s
}

// addsNothingTo reports whether an earlier item of the same message counts wherever this one
// does.
func (s Send) addsNothingTo(earlier Send) bool {
	return s.Item && earlier.Message == s.Message && earlier.Type == s.Type && earlier.Source == s.Source && earlier.Follow == s.Follow &&
		notify.SetOf(earlier.Channels) == notify.SetOf(s.Channels) && maps.Equal(earlier.Keys, s.Keys)
}

// keyOf returns the names and the values of a limit's key. It is not known where the limit
// has none, or the event lacks a value.
func keyOf(l *notify.Limit, e Event) (names, values string, known bool) {
	var all []string
	for _, name := range l.Key {
		value := e.keyText(name)
		if value == "" {
			return "", "", false
		}
		all = append(all, value)
	}
	return namesOf(l), strings.Join(all, "\x00"), len(all) > 0
}

func namesOf(l *notify.Limit) string { return strings.Join(l.Key, "\x00") }

// covers reports whether a limit bounds sends like this one.
func covers(l *notify.Limit, p *notify.Policy, s *Send) bool {
	_, keyed := s.Keys[namesOf(l)]
	return (len(l.Of.Types) > 0 || p.Types[s.Type].Capped) && ofSelector(l, s) &&
		(len(l.Key) == 0 || keyed) && (!s.Follow || len(l.Of.Channels) > 0)
}

func ofSelector(l *notify.Limit, s *Send) bool {
	return (len(l.Of.Types) == 0 || slices.Contains(l.Of.Types, s.Type)) &&
		(len(l.Of.Sources) == 0 || slices.Contains(l.Of.Sources, s.Source))
}

// counts reports whether a limit counts a send where it bounds another one.
func counts(l *notify.Limit, s, of *Send) bool {
	return ofSelector(l, s) && (len(l.Key) == 0 || s.Keys[namesOf(l)] == of.Keys[namesOf(l)]) &&
		(len(l.Of.Channels) > 0 && slices.ContainsFunc(s.Channels, func(c notify.Channel) bool { return slices.Contains(l.Of.Channels, c) }) ||
			len(l.Of.Channels) == 0 && !s.Follow)
}

// counted returns the instants of the sends that a limit counts, a message's once.
func counted(l *notify.Limit, sends []Send, of *Send) (all []engine.Millis) {
	messages := map[uuid.UUID]bool{}
	for i := range sends {
		s := &sends[i]
		if !counts(l, s, of) || s.Item && messages[s.Message] {
			continue
		}
		messages[s.Message] = true
		all = append(all, s.At)
	}
	return all
}

// within returns how many instants are in the window that ends at one.
func within(all []engine.Millis, w, at engine.Millis) (n int) {
	for _, one := range all {
		if at-w < one && one <= at {
			n++
		}
	}
	return n
}

// bound is a limit, as it bounds one event: taken are sends and slots, in order.
type bound struct {
	*notify.Limit
	sends, taken []engine.Millis
}

// boundsOf returns the limits that cover a send, beside the slots in its way.
func boundsOf(p *notify.Policy, s *Send, sends []Send, kept []Slot) (all []bound) {
	for i := range p.Limits {
		l := &p.Limits[i]
		if !covers(l, p, s) {
			continue
		}
		b := bound{Limit: l, sends: counted(l, sends, s)}
		b.taken = slices.Clone(b.sends)
		for _, o := range kept {
			if counts(l, &o.Send, s) {
				b.taken = append(b.taken, o.At)
			}
		}
		slices.Sort(b.taken)
		all = append(all, b)
	}
	return all
}

// names reports whether the limit is of all channels, or of one of these.
func (b *bound) names(channels []notify.Channel) bool {
	return len(b.Of.Channels) == 0 || slices.ContainsFunc(channels, func(c notify.Channel) bool { return slices.Contains(b.Of.Channels, c) })
}

// roomFrom is the least instant from at on at which the limit lets one more through.
func (b *bound) roomFrom(at engine.Millis) engine.Millis {
	return roomFrom(b.taken, b.Most, b.Within, at)
}
