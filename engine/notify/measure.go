package notify

import "keyfold/engine"

// measure reads what caps, cooldown, quiet hours and rules look at into the facts.
func (d *decision) measure() {
	f := &d.record.Facts
	d.look()
	f.Waiting, f.Frees, f.CooldownEnd = len(d.slots.reserved), [len(Windows)]engine.Millis{}, 0
	for i, window := range Windows {
		f.Caps[i] = d.set.Policy.Caps[i]
		if own := d.prefs.Caps[i]; own > 0 {
			f.Caps[i] = own
		}
		f.Counts[i] = d.state.sentSince(d.now - window)
		if free := d.frees(i, d.now); free > d.now {
			f.Frees[i] = free
		}
	}
	if end := d.cooled(d.now); end > d.now {
		f.CooldownEnd = end
	}
	if len(d.prefs.Quiet) > 0 && d.quietEnd(d.now) > d.now {
		f.QuietEnd = d.quietEnd(d.now)
	}
	f.SnoozedTo = 0
	if until := max(d.prefs.SnoozedUntil, d.chosen.SnoozedUntil); until > d.now && !d.free {
		f.SnoozedTo = until
	}
}

// sentSince returns how many sends are after an instant.
func (s *State) sentSince(instant engine.Millis) int {
	low, high := 0, len(s.Sends)
	for low < high {
		if middle := int(uint(low+high) / 2); s.Sends[middle] > instant {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return len(s.Sends) - low
}

// frees returns the least instant from at on at which a cap lets one through.
func (d *decision) frees(window int, at engine.Millis) engine.Millis {
	return d.slots.free(d.record.Facts.Caps[window], Windows[window], at)
}

// cooled returns the least instant from at on that no cooldown of the event's type holds.
func (d *decision) cooled(at engine.Millis) engine.Millis {
	if d.policy.Cooldown == 0 {
		return at
	}
	if last := d.state.LastSend[d.event.Type]; last != 0 {
		at = max(at, last+d.policy.Cooldown)
	}
	return d.slots.cooled(d.event.Type, d.policy.Cooldown, at)
}

// ask fills what rules can ask for.
func (d *decision) ask() {
	f := &d.record.Facts
	weekday, minute := d.prefs.Zone.Local(d.now)
	in := &d.input
	*in = Input{
		Event:      d.event,
		Turn:       d.turn.Number,
		AgeMs:      max(0, d.now-d.event.Timestamp),
		ExpiresMs:  d.event.ExpiresAt - d.now,
		Hour:       int(minute) / 60,
		Weekday:    weekday,
		InQuiet:    f.QuietEnd != 0,
		Counts:     f.Counts,
		Sent:       d.state.Sent,
		Now:        d.now,
		Attributes: d.prefs.Attributes.Values,
		SinceLast:  -1,
		SinceSame:  -1,
	}
	within := d.now - f.Horizon
	if n := len(d.state.Sends); n > 0 && d.state.Sends[n-1] > within {
		in.SinceLast = d.now - d.state.Sends[n-1]
	}
	if last := d.state.LastSend[d.event.Type]; last != 0 && last > within {
		in.SinceSame = d.now - last
	}
}

// holds is what holds an event back, and what could: a stage applies unless the
// type's policy or a rule's NOW leaves it out.
type holds struct {
	caps                                                  [len(Windows)]bool
	limit, cooldown, snooze, quiet                        bool
	capsApply, limitsApply, cooldownApplies, quietApplies bool
}

func (h *holds) any() bool { return h.fatigue() || h.snooze || h.quiet }

// fatigue reports whether the user has got too much.
func (h *holds) fatigue() bool { return h.caps != [len(Windows)]bool{} || h.limit || h.cooldown }

// hold finds which of caps, limits, cooldown, snooze and quiet hours hold the event. A
// follow-up is held by what holds its channels.
func (d *decision) hold() {
	var bypass Bypass
	if d.says(Now) {
		bypass = d.action.Bypass
	}
	first := d.event.Follows == nil
	f, h := &d.record.Facts, &d.holds
	*h = holds{
		capsApply:       first && d.policy.Capped && !bypass.Caps,
		limitsApply:     !bypass.Caps,
		cooldownApplies: first && d.policy.Cooldown > 0 && !bypass.Cooldown,
		quietApplies:    d.policy.Quiet && !bypass.Quiet,
	}
	for i := range h.caps {
		h.caps[i] = h.capsApply && f.Frees[i] != 0
	}
	d.bind()
	h.limit = h.limitsApply && d.limitFrees(d.now) > d.now
	h.cooldown = h.cooldownApplies && f.CooldownEnd != 0
	d.holdChannels()
}
