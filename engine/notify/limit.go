package notify

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"keyfold/engine"
)

// Limit bounds how many sends of a kind a user gets. With Most 1 it is a pause between two.
type Limit struct {
	Name    string
	Of      Selector
	Key     []string // fields whose values set sends apart; nil: all are counted together
	Most    int
	Within  engine.Millis
	keyAt   int    // which of [Sent.Keys] is of its key
	keyed   uint64 // begins the hashes of the key
	tag     uint8  // ends them, so that they are known among [Sent.Keys] of another set
	sources []uint32
	names   ChannelSet
}

// Selector chooses events by what is known of their sends, too. Each list may be empty: it
// chooses all then.
type Selector struct {
	Types    []EventType
	Sources  []string
	Channels []Channel
}

// Bounds of the limits of a policy.
const (
	MaxLimits = 32
	// MaxKeys is how many keys the limits of one event may have: a state keeps so many hashes
	// of each send.
	MaxKeys = 2
)

// Sent is what limits know of one send, or of a reservation.
type Sent struct {
	At       engine.Millis   `json:"-"`
	Type     EventType       `json:"-"`
	Channels ChannelSet      `json:"channels,omitzero"`
	Source   uint32          `json:"-"`             // [SourceHash]
	Keys     [MaxKeys]uint32 `json:"keys,omitzero"` // hashes of the limits' keys; 0: none
	// Item: another entry stands for the same message, before it. A message counts once.
	Item bool `json:"-"`
	// Follow: the event was sent before, on other channels. It counts for these alone.
	Follow bool `json:"-"`
}

// ChannelSet has the bit 1<<c of each channel.
type ChannelSet uint8

// SetOf returns the set of channels.
func SetOf(channels []Channel) (s ChannelSet) {
	for _, c := range channels {
		s |= 1 << c
	}
	return s
}

// Has reports whether a channel is in the set.
func (s ChannelSet) Has(c Channel) bool { return s&(1<<c) != 0 }

// SourceHash returns what a state keeps of a source. Two of the sources of one user have the
// same in one of 4 billion pairs.
func SourceHash(source string) uint32 { return uint32(xxhash.Sum64String(source)) }

// Prepare computes what limits are compared by. The reader of a policy calls it.
func (p *Policy) Prepare() {
	// In order, so that slots that another set with these keys has left are told apart alike.
	var keys []string
	for i := range p.Limits {
		if key := strings.Join(p.Limits[i].Key, "\x00"); key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for i := range p.Limits {
		l := &p.Limits[i]
		l.names, l.sources = SetOf(l.Of.Channels), make([]uint32, len(l.Of.Sources))
		for j, s := range l.Of.Sources {
			l.sources[j] = SourceHash(s)
		}
		if len(l.Key) == 0 {
			continue
		}
		key := strings.Join(l.Key, "\x00")
		l.keyAt = slices.Index(keys, key)
		l.keyed = xxhash.Sum64String(key)
		if l.tag = uint8(l.keyed); l.keyAt > 0 && l.tag == uint8(xxhash.Sum64String(keys[0])) {
			l.tag++
		}
	}
}

// keyOf returns the hash of an event's values of the limit's key, with the limit's tag in the
// last byte; 0: a value is missing. Two values of one user have the same in one of 16 million pairs.
func (l *Limit) keyOf(n *Notification) uint32 {
	d := xxhash.NewWithSeed(l.keyed)
	for _, name := range l.Key {
		value := n.text(name)
		if value == "" {
			return 0
		}
		_, _ = d.WriteString(value)
		_, _ = d.Write([]byte{0})
	}
	return max(1, uint32(d.Sum64())&0xffffff)<<8 | uint32(l.tag)
}

// covers reports whether a limit bounds a send, such as the one that an event will be.
func (l *Limit) covers(p *Policy, s *Sent) bool {
	switch {
	case len(l.Of.Types) == 0 && !p.Types[s.Type].Capped, len(l.Key) > 0 && s.key(l) == 0:
		return false
	default:
		return l.counts(s, s.key(l))
	}
}

// key returns the hash of a limit's key; 0: it has none. Another set may have put it into
// another place.
func (s *Sent) key(l *Limit) uint32 {
	if len(l.Key) == 0 {
		return 0
	}
	for _, key := range s.Keys {
		if key != 0 && uint8(key) == l.tag {
			return key
		}
	}
	return 0
}

// counts reports whether a send is one of those that a limit bounds; key is that of the
// event in question, 0 where the limit has none.
func (l *Limit) counts(s *Sent, key uint32) bool {
	switch {
	case s.Follow && l.names == 0:
		return false
	case len(l.Of.Types) > 0 && !contains(l.Of.Types, s.Type):
		return false
	case len(l.sources) > 0 && !contains(l.sources, s.Source):
		return false
	case l.names != 0 && s.Channels&l.names == 0:
		return false
	}
	return key == 0 || contains(s.Keys[:], key) // sets differ in the places of keys
}

// SentOf returns what limits know of a send of an event by some channels.
func (p *Policy) SentOf(n *Notification, channels []Channel) Sent {
	s := Sent{Type: n.Type, Channels: SetOf(channels), Source: SourceHash(n.Source), Follow: n.Follows != nil}
	for i := range p.Limits {
		if l := &p.Limits[i]; len(l.Key) > 0 && s.Keys[l.keyAt] == 0 {
			s.Keys[l.keyAt] = l.keyOf(n)
		}
	}
	return s
}

// bound is a limit that bounds an event.
type bound struct {
	*Limit
	key   uint32
	slots slots // sends and reservations that it counts
	sends []engine.Millis
}

// free returns the least instant from at on at which the limit has room.
func (b *bound) free(at engine.Millis) engine.Millis { return b.slots.free(b.Most, b.Within, at) }

// boundBy returns a limit with the slots of a state that it counts, for a send that it
// bounds. reserved are the reservations that count.
func (s *State) boundBy(l *Limit, of *Sent, reserved []Reservation) bound {
	b := bound{Limit: l, key: of.key(l)}
	counted := false // the message of the entries
	for i := range s.Sent {
		one := &s.Sent[i]
		counted = counted && one.Item
		if !counted && l.counts(one, b.key) {
			counted = true
			b.slots.taken = append(b.slots.taken, one.At)
		}
	}
	b.sends = b.slots.taken
	for i := range reserved {
		if r := &reserved[i]; l.counts(&r.Sent, b.key) {
			if len(b.slots.reserved) == 0 {
				b.slots.taken = slices.Clone(b.sends)
			}
			b.slots.insert(*r)
		}
	}
	return b
}
