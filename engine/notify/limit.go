package notify

import (
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
	keyed   uint32 // begins the hashes of the key
	sources []uint32
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

// Prepare computes what a limit is compared by. The reader of a policy calls it.
func (l *Limit) Prepare() {
	l.keyed = uint32(xxhash.Sum64String(strings.Join(l.Key, "\x00")))
	l.sources = make([]uint32, len(l.Of.Sources))
	for i, s := range l.Of.Sources {
		l.sources[i] = SourceHash(s)
	}
}

// keyOf returns the hash of an event's values of the limit's key; 0: a value is missing.
func (l *Limit) keyOf(n *Notification) uint32 {
	d := xxhash.NewWithSeed(uint64(l.keyed))
	for _, name := range l.Key {
		value := n.text(name)
		if value == "" {
			return 0
		}
		_, _ = d.WriteString(value)
		_, _ = d.Write([]byte{0})
	}
	return max(1, uint32(d.Sum64()))
}

// covers reports whether a limit bounds sends of an event.
func (l *Limit) covers(p *Policy, n *Notification, source uint32) bool {
	switch {
	case len(l.Of.Types) == 0 && !p.Types[n.Type].Capped, len(l.Of.Types) > 0 && !contains(l.Of.Types, n.Type):
		return false
	case len(l.sources) > 0 && !contains(l.sources, source):
		return false
	}
	return true
}

// counts reports whether a send is one of those that a limit bounds; key is that of the
// event in question, 0 where the limit has none.
func (l *Limit) counts(s *Sent, key uint32) bool {
	switch {
	case s.Follow && len(l.Of.Channels) == 0:
		return false
	case len(l.Of.Types) > 0 && !contains(l.Of.Types, s.Type):
		return false
	case len(l.sources) > 0 && !contains(l.sources, s.Source):
		return false
	case len(l.Of.Channels) > 0 && s.Channels&SetOf(l.Of.Channels) == 0:
		return false
	}
	return key == 0 || contains(s.Keys[:], key)
}

// SentOf returns what limits know of a send of an event by some channels.
func (p *Policy) SentOf(n *Notification, at engine.Millis, channels []Channel) Sent {
	s := Sent{At: at, Type: n.Type, Channels: SetOf(channels), Source: SourceHash(n.Source), Follow: n.Follows != nil}
	at32 := 0
	for i := range p.Limits {
		l := &p.Limits[i]
		if len(l.Key) == 0 || at32 == MaxKeys || !l.covers(p, n, s.Source) {
			continue
		}
		if key := l.keyOf(n); key != 0 && !contains(s.Keys[:], key) {
			s.Keys[at32] = key
			at32++
		}
	}
	return s
}
