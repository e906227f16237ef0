package rule

import (
	"slices"

	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

func (r *reader) preferences(n *node, p *notify.Preferences) {
	r.object(n,
		key{"zone", false, func(n *node) {
			if !r.is(n, '"') {
				return
			}
			zone, err := quiet.LoadZone(n.text)
			if err != nil {
				r.fault(n, "%v", err)
			}
			p.Zone = zone
		}},
		key{"quiet", false, func(n *node) {
			if err := p.Quiet.UnmarshalJSON(n.raw); err != nil {
				r.fault(n, "%v", err)
			}
		}},
		key{"muted", false, func(n *node) { p.Muted = words(r, n, 0, notify.EventTypes...) }},
		key{"channels", false, func(n *node) { p.Channels = words(r, n, 0, notify.Channels...) }},
		key{"caps", false, func(n *node) { r.caps(n, &p.Caps) }},
		key{"topics", false, func(n *node) { p.Topics = r.topicPreferences(n) }},
		key{"digests", false, func(n *node) { p.Digests = r.clocks(n) }},
		key{"attributes", false, func(n *node) {
			if err := p.Attributes.UnmarshalJSON(n.raw); err != nil {
				r.fault(n, "%v", err)
			}
		}},
		key{"paused", false, func(n *node) { p.Paused = r.bool(n) }},
		key{"muted_until", false, func(n *node) { p.MutedUntil = r.instant(n) }},
		key{"snoozed_until", false, func(n *node) { p.SnoozedUntil = r.instant(n) }},
	)
}

// topicPreferences reads what a user has chosen of the policy's topics.
func (r *reader) topicPreferences(n *node) map[string]notify.TopicPreference {
	chosen := map[string]notify.TopicPreference{}
	keys := make([]key, len(r.topics))
	for i := range r.topics {
		name := r.topics[i].Name
		keys[i] = key{name, false, func(n *node) { chosen[name] = r.topicPreference(n) }}
	}
	r.object(n, keys...)
	return chosen
}

func (r *reader) topicPreference(n *node) (p notify.TopicPreference) {
	r.object(n,
		key{"channels", false, func(n *node) {
			keys := make([]key, len(notify.Channels))
			for i, c := range notify.Channels {
				keys[i] = key{c.String(), false, func(n *node) {
					p.Channels[c] = word(r, n, notify.ChoiceOn, notify.ChoiceOff, notify.ChoiceDigest)
				}}
			}
			r.object(n, keys...)
		}},
		key{"muted_until", false, func(n *node) { p.MutedUntil = r.instant(n) }},
		key{"snoozed_until", false, func(n *node) { p.SnoozedUntil = r.instant(n) }},
	)
	return p
}

// clocks reads times of day, each of which may stand once.
func (r *reader) clocks(n *node) (clocks []quiet.Clock) {
	r.list(n, 0, func(item *node) {
		if !r.is(item, '"') {
			return
		}
		clock, err := quiet.ParseClock(item.text)
		switch {
		case err != nil:
			r.fault(item, "%v", err)
		case slices.Contains(clocks, clock):
			r.fault(item, "%s is there twice: remove one", clock)
		default:
			clocks = append(clocks, clock)
		}
	})
	slices.Sort(clocks)
	return clocks
}
