package rule

import (
	"slices"

	"keyfold/engine/notify"
)

// maxTitle bounds the title of a topic, in characters.
const maxTitle = 120

func (r *reader) readTopics(n *node) (topics []notify.Topic) {
	if len(n.items) > notify.MaxTopics {
		r.fault(n, "found %d topics, expected at most %d", len(n.items), notify.MaxTopics)
	}
	r.list(n, 0, func(item *node) {
		t := r.topic(item, topics)
		for i := range topics {
			if covers(&topics[i].Of, &t.Of) && t.Name != "" {
				r.warn(item, "no event has the topic %s: topic %s before it has them all: change the order, or remove it", t.Name, topics[i].Name)
				break
			}
		}
		topics = append(topics, t)
	})
	return topics
}

func (r *reader) topic(n *node, others []notify.Topic) (t notify.Topic) {
	r.object(n,
		key{"name", true, func(n *node) {
			t.Name = r.plainName(n, func(name string) bool {
				return slices.ContainsFunc(others, func(o notify.Topic) bool { return o.Name == name })
			})
		}},
		key{"title", true, func(n *node) { t.Title = r.string(n, maxTitle) }},
		key{"types", false, func(n *node) { t.Of.Types = words(r, n, 1, notify.EventTypes...) }},
		key{"sources", false, func(n *node) { t.Of.Sources = r.sources(n) }},
		key{"locked", false, func(n *node) { t.Locked = r.bool(n) }},
	)
	return t
}

// covers reports whether a selector of topics chooses all that another one does.
func covers(s, other *notify.Selector) bool {
	return holdsAll(s.Types, other.Types) && holdsAll(s.Sources, other.Sources)
}

// holdsAll reports whether a list has all of another one; an empty list stands for all.
func holdsAll[T comparable](list, others []T) bool {
	if len(list) == 0 {
		return true
	}
	return len(others) > 0 && !slices.ContainsFunc(others, func(o T) bool { return !slices.Contains(list, o) })
}

// awake reads the channels that quiet hours do not hold.
func (r *reader) awake(n *node) (awake notify.ChannelSet) {
	keys := make([]key, len(notify.Channels))
	for i, c := range notify.Channels {
		keys[i] = key{c.String(), false, func(n *node) {
			r.object(n, key{"quiet_hours", true, func(n *node) {
				if keeps := r.bool(n); !keeps {
					awake |= notify.SetOf([]notify.Channel{c})
				}
			}})
		}}
	}
	r.object(n, keys...)
	return awake
}
