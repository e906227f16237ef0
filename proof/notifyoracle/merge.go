package notifyoracle

import (
	"cmp"
	"slices"

	"keyfold/engine/notify"
)

// Merge makes another id one of this user. Both are one person from then on, who has made the
// decisions of both in the order of their instants; of equal ones this user's come first.
func (u *User) Merge(alias *User) {
	past := slices.Concat(u.Past, alias.Past)
	slices.SortStableFunc(past, func(a, b Decision) int { return cmp.Compare(a.DecidedAt, b.DecidedAt) })
	u.Past, u.state, u.walked = past, State{}, 0
	u.Preferences = Joined(&u.Preferences, &alias.Preferences)
}

// Joined are the preferences of a person who has had own ones, and others as an alias. What is
// kept from the user by either is kept from the person.
func Joined(own, alias *notify.Preferences) notify.Preferences {
	j := notify.Preferences{
		Zone: own.Zone, Quiet: own.Quiet, Digests: own.Digests, Attributes: own.Attributes,
		Muted: slices.Concat(own.Muted, alias.Muted), Paused: own.Paused || alias.Paused,
		MutedUntil:   max(own.MutedUntil, alias.MutedUntil),
		SnoozedUntil: max(own.SnoozedUntil, alias.SnoozedUntil),
		Channels:     bothAllow(own.Channels, alias.Channels), Topics: map[string]notify.TopicPreference{},
	}
	if own.Zone == nil {
		j.Zone = alias.Zone
	}
	if len(own.Quiet) == 0 {
		j.Quiet = alias.Quiet
	}
	if len(own.Digests) == 0 {
		j.Digests = alias.Digests
	}
	if own.Attributes.IsZero() {
		j.Attributes = alias.Attributes
	}
	for i := range j.Caps {
		switch a, b := own.Caps[i], alias.Caps[i]; {
		case a == 0 || b == 0:
			j.Caps[i] = a + b
		default:
			j.Caps[i] = min(a, b)
		}
	}
	for _, topics := range []map[string]notify.TopicPreference{own.Topics, alias.Topics} {
		for name := range topics {
			j.Topics[name] = joinedTopic(own.Topics[name], alias.Topics[name])
		}
	}
	return j
}

// bothAllow are the channels that are in both lists, of which an empty one has all; the own
// ones where there is none.
func bothAllow(own, alias []notify.Channel) (both []notify.Channel) {
	in := func(all []notify.Channel, c notify.Channel) bool { return len(all) == 0 || slices.Contains(all, c) }
	for _, c := range notify.Channels {
		if in(own, c) && in(alias, c) {
			both = append(both, c)
		}
	}
	switch {
	case len(own) == 0 && len(alias) == 0:
		return nil
	case len(both) == 0:
		return own
	}
	return both
}

// joinedTopic keeps of each channel the choice that sends least: off, then digest, then on.
func joinedTopic(own, alias notify.TopicPreference) (j notify.TopicPreference) {
	for _, c := range notify.Channels {
		for _, choice := range []notify.Choice{notify.ChoiceOff, notify.ChoiceDigest} {
			if own.Channels[c] == choice || alias.Channels[c] == choice {
				j.Channels[c] = choice
				break
			}
		}
	}
	j.MutedUntil = max(own.MutedUntil, alias.MutedUntil)
	j.SnoozedUntil = max(own.SnoozedUntil, alias.SnoozedUntil)
	return j
}

// ComparePreferences names what is not the same. Lists of types and channels have no order, and
// a channel that is on says nothing.
func ComparePreferences(want, got *notify.Preferences) (differences []string) {
	d := &differences
	zone := func(p *notify.Preferences) string {
		if p.Zone == nil {
			return ""
		}
		return p.Zone.Name()
	}
	differ(d, "zone", zone(want) == zone(got), zone(want), zone(got))
	differ(d, "quiet hours", slices.Equal(want.Quiet, got.Quiet), want.Quiet, got.Quiet)
	differ(d, "digest times", slices.Equal(want.Digests, got.Digests), want.Digests, got.Digests)
	differ(d, "attributes", sameAttributes(want.Attributes, got.Attributes), want.Attributes, got.Attributes)
	differ(d, "muted", slices.Equal(setOf(want.Muted), setOf(got.Muted)), want.Muted, got.Muted)
	differ(d, "channels", slices.Equal(setOf(want.Channels), setOf(got.Channels)), want.Channels, got.Channels)
	differ(d, "caps", want.Caps == got.Caps, want.Caps, got.Caps)
	differ(d, "paused", want.Paused == got.Paused, want.Paused, got.Paused)
	differ(d, "muted until", want.MutedUntil == got.MutedUntil, want.MutedUntil, got.MutedUntil)
	differ(d, "snoozed until", want.SnoozedUntil == got.SnoozedUntil, want.SnoozedUntil, got.SnoozedUntil)
	names := map[string]bool{}
	for _, topics := range []map[string]notify.TopicPreference{want.Topics, got.Topics} {
		for name := range topics {
			names[name] = true
		}
	}
	for name := range names {
		w, g := withoutOn(want.Topics[name]), withoutOn(got.Topics[name])
		differ(d, "topic "+name, w == g, w, g)
	}
	return differences
}

func withoutOn(t notify.TopicPreference) notify.TopicPreference {
	for c := range t.Channels {
		if t.Channels[c] == notify.ChoiceOn {
			t.Channels[c] = 0
		}
	}
	return t
}

// setOf sorts what a list has, each once.
func setOf[T cmp.Ordered](all []T) []T {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}

func sameAttributes(want, got notify.Attributes) bool {
	w, errW := want.MarshalJSON()
	g, errG := got.MarshalJSON()
	return errW == nil && errG == nil && string(w) == string(g)
}
