package notifyoracle

import (
	"slices"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// topicOf returns the first topic that an event of a type and a source is of.
func topicOf(p *notify.Policy, kind notify.EventType, source string) *notify.Topic {
	for i := range p.Topics {
		of := p.Topics[i].Of
		if (len(of.Types) == 0 || slices.Contains(of.Types, kind)) && (len(of.Sources) == 0 || slices.Contains(of.Sources, source)) {
			return &p.Topics[i]
		}
	}
	return nil
}

// wish is what a user has chosen for what an event is about. SECURITY and locked topics
// heed nothing of it.
type wish struct {
	topic  string
	bound  bool // it is heeded
	choice notify.TopicPreference
}

func wishOf(p *notify.Policy, prefs *notify.Preferences, kind notify.EventType, source string) wish {
	w := wish{bound: kind != notify.Security}
	if t := topicOf(p, kind, source); t != nil {
		w.topic, w.choice = t.Name, prefs.Topics[t.Name]
		w.bound = w.bound && !t.Locked
	}
	return w
}

// muted returns the reason of stage 2, "" where nothing is muted.
func (t *turn) muted() string {
	switch {
	case !t.wish.bound:
	case slices.Contains(t.prefs.Muted, t.event.Type):
		return notify.ReasonMuted
	case t.prefs.Paused:
		return notify.ReasonPaused
	case t.now < t.prefs.MutedUntil, t.now < t.wish.choice.MutedUntil:
		return notify.ReasonMuted
	}
	return ""
}

// choose splits channels into those that the user has on, and those that the user wants in
// digests. SECURITY keeps them all where none is allowed. An item goes out on both. It
// reports whether any is left.
func (t *turn) choose(channels []notify.Channel) bool {
	t.on, t.inDigest = nil, nil
	for _, c := range channels {
		choice := t.wish.choice.Channels[c]
		switch {
		case len(t.prefs.Channels) > 0 && !slices.Contains(t.prefs.Channels, c):
		case t.wish.bound && choice == notify.ChoiceOff:
		case t.wish.bound && choice == notify.ChoiceDigest && !t.item:
			t.inDigest = append(t.inDigest, c)
		default:
			t.on = append(t.on, c)
		}
	}
	if len(t.on)+len(t.inDigest) == 0 && t.event.Type == notify.Security {
		t.on = channels
	}
	if t.allowed = t.on; len(t.on) == 0 {
		t.allowed = t.inDigest
	}
	return len(t.allowed) > 0
}

// waiter is what waits: the event, or the owner of a slot.
type waiter struct {
	send     Send
	wish     wish
	quiet    bool // quiet hours apply to it
	limits   bool // limits do
	channels []notify.Channel
	bounds   []bound
}

// waiter returns the event as it waits.
func (t *turn) waiter() *waiter {
	w := &waiter{
		send: t.send(t.now, t.allowed), wish: t.wish, channels: t.allowed,
		quiet: t.policy.Quiet && !t.rule.bypasses("quiet_hours"), limits: !t.rule.bypasses("caps"),
	}
	w.bounds = boundsOf(&t.set.Policy, &w.send, t.state.Sent, t.slots)
	return w
}

// hushes are what quiets a channel: quiet hours, and snooze.
func (t *turn) hushes(w *waiter, c notify.Channel) (all []blocker) {
	if !w.quiet {
		return nil
	}
	if until := max(t.prefs.SnoozedUntil, w.wish.choice.SnoozedUntil); w.wish.bound {
		all = append(all, blocker{notify.ReasonSnoozed, true, false, func(at engine.Millis) engine.Millis { return max(at, until) }})
	}
	if !t.set.Policy.Awake.Has(c) {
		all = append(all, blocker{notify.ReasonQuietHours, true, false, func(at engine.Millis) engine.Millis { return t.zone.quietEnd(t.prefs.Quiet, at) }})
	}
	return all
}

// holds are all that holds a channel.
func (t *turn) holds(w *waiter, c notify.Channel) []blocker {
	all := t.hushes(w, c)
	for i := range w.bounds {
		if b := &w.bounds[i]; w.limits && slices.Contains(b.Of.Channels, c) {
			all = append(all, blocker{notify.ReasonLimit, false, true, b.roomFrom})
		}
	}
	return all
}

// freeAfter is the least instant from at on at which none of these holds, found in at most
// eight rounds; last is the one that moved it last, slots reports whether one with slots
// has moved it.
func freeAfter(holds []blocker, at engine.Millis) (free engine.Millis, last blocker, slots bool) {
	for range 8 {
		began := at
		for _, b := range holds {
			if free := b.free(at); free > at {
				at, last, slots = free, b, slots || b.slot
			}
		}
		if at == began {
			break
		}
	}
	return at, last, slots
}

// anyFree is the least instant from at on at which one of the waiter's channels is free.
func (t *turn) anyFree(w *waiter, at engine.Millis) (free engine.Millis, last blocker, slots bool) {
	for i, c := range w.channels {
		f, l, s := freeAfter(t.holds(w, c), at)
		if i == 0 || f < free {
			free, last, slots = f, l, s
		}
	}
	return free, last, slots
}

// freeAt returns the channels that are free at an instant.
func (t *turn) freeAt(w *waiter, at engine.Millis) (open []notify.Channel) {
	for _, c := range w.channels {
		if free, _, _ := freeAfter(t.holds(w, c), at); free == at {
			open = append(open, c)
		}
	}
	return open
}

// anyAwake is the least instant from at on at which quiet hours and snooze do not hold one of
// the channels, whatever a rule bypasses: that of items.
func (t *turn) anyAwake(channels []notify.Channel, at engine.Millis) (least engine.Millis) {
	w := &waiter{wish: t.wish, quiet: t.policy.Quiet}
	for i, c := range channels {
		if free, _, _ := freeAfter(t.hushes(w, c), at); i == 0 || free < least {
			least = free
		}
	}
	return least
}

// awake returns the channels that quiet hours and snooze do not hold now.
func (t *turn) awake(w *waiter) (all []notify.Channel) {
	for _, c := range t.allowed {
		if free, _, _ := freeAfter(t.hushes(w, c), t.now); free == t.now {
			all = append(all, c)
		}
	}
	return all
}

// held returns the allowed channels that a NOW does not go out on.
func (t *turn) heldBy(open []notify.Channel) (held []notify.Channel) {
	for _, c := range t.allowed {
		if !slices.Contains(open, c) {
			held = append(held, c)
		}
	}
	return held
}
