package rule

import (
	"keyfold/engine"
	"keyfold/engine/notify"
)

// like is what a send must have in common with an event to be counted.
type like struct {
	kind     notify.EventType
	source   uint32
	channels notify.ChannelSet // one of them
}

func ofType(in *notify.Input) like { return like{kind: in.Event.Type} }

func ofSource(in *notify.Input) like { return like{source: notify.SourceHash(in.Event.Source)} }

func ofChannel(in *notify.Input) like {
	return like{channels: notify.SetOf(in.Event.Channels)}
}

// countOf returns the field of the sends in a window that are like the event.
func countOf(name string, window int, of func(*notify.Input) like) field {
	within := notify.Windows[window]
	return field{
		name: name, always: true,
		number: func(in *notify.Input) (int64, bool) {
			wanted := of(in)
			return wanted.count(in.Sent, in.Now-within), true
		},
	}
}

// count returns how many messages after an instant are wanted. The items of a digest's
// message stand behind its first entry: the message counts once.
func (l *like) count(sent []notify.Sent, after engine.Millis) (n int64) {
	counted := false
	for i := behind(sent, after); i < len(sent); i++ {
		s := &sent[i]
		counted = counted && s.Item
		if !counted && l.has(s) {
			counted = true
			n++
		}
	}
	return n
}

func (l *like) has(s *notify.Sent) bool {
	switch {
	case l.channels != 0:
		return s.Channels&l.channels != 0
	case s.Follow:
		return false
	case l.kind != 0:
		return s.Type == l.kind
	default:
		return s.Source == l.source
	}
}

// behind returns the index of the first send after an instant.
func behind(sent []notify.Sent, instant engine.Millis) int {
	low, high := 0, len(sent)
	for low < high {
		if middle := int(uint(low+high) / 2); sent[middle].At > instant {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}
