package notify

import (
	"slices"

	"keyfold/engine"
)

// bind finds the limits that bound the event on the channels that the user allows.
func (d *decision) bind() {
	d.bounds = d.bounds[:0]
	p := &d.set.Policy
	if len(p.Limits) == 0 {
		return
	}
	d.sent = p.SentOf(d.event, d.allowed)
	d.record.Facts.Sent.Keys = d.sent.Keys
	for i := range p.Limits {
		if l := &p.Limits[i]; l.covers(p, &d.sent) {
			d.bounds = append(d.bounds, d.state.boundBy(l, &d.sent, d.slots.reserved))
		}
	}
	d.tellLimits()
}

// tellLimits keeps what the decision saw of the limits that bound it.
func (d *decision) tellLimits() {
	if len(d.bounds) == 0 {
		d.record.Facts.Limits = nil
		return
	}
	facts := make([]LimitFact, len(d.bounds))
	for i := range d.bounds {
		b := &d.bounds[i]
		f := LimitFact{Name: b.Name, Most: b.Most, Channels: b.Of.Channels, Count: b.sent(d.now)}
		if free := b.free(d.now); free > d.now {
			f.Frees = free
		}
		facts[i] = f
	}
	d.record.Facts.Limits = facts
}

// sent returns how many sends are within the limit's span.
func (b *bound) sent(now engine.Millis) (n int) {
	for _, at := range b.sends {
		if now-b.Within < at && at <= now {
			n++
		}
	}
	return n
}

// limitFrees returns the least instant from at on at which the limits that hold the event
// on all channels let it through.
func (d *decision) limitFrees(at engine.Millis) engine.Millis {
	for i := range d.bounds {
		if b := &d.bounds[i]; b.names == 0 {
			at = b.free(at)
		}
	}
	return at
}

// hushed returns when quiet hours or a snooze let a channel through, from an instant on.
func (d *decision) hushed(c Channel, at engine.Millis) engine.Millis {
	if !d.holds.quietApplies {
		return at
	}
	at = max(at, d.record.Facts.SnoozedTo)
	if len(d.prefs.Quiet) > 0 && !d.set.Policy.Awake.Has(c) {
		at = d.quietEnd(at)
	}
	return at
}

// quietEnd returns the least instant from at on that is in none of the user's quiet hours. A
// decision asks for few of them, and for most more than once.
func (d *decision) quietEnd(at engine.Millis) engine.Millis {
	if at < d.quietFrom || at > d.quietTo || d.quietTo == 0 {
		d.quietFrom, d.quietTo = at, d.prefs.Quiet.End(d.prefs.Zone, at)
	}
	return d.quietTo
}

// channelFrees returns when the limits of a channel let it through, from an instant on.
func (d *decision) channelFrees(c Channel, at engine.Millis) engine.Millis {
	if !d.holds.limitsApply {
		return at
	}
	for i := range d.bounds {
		if b := &d.bounds[i]; b.names.Has(c) {
			at = b.free(at)
		}
	}
	return at
}

// channelFree returns the least instant from at on at which nothing holds a channel, and
// what moved it there last. slot: a limit has moved it.
func (d *decision) channelFree(c Channel, at engine.Millis) (free engine.Millis, last mover, slot bool) {
	for range maxRounds {
		before := at
		if to := d.hushed(c, at); to > at {
			at, last = to, moverQuiet
		}
		if to := d.channelFrees(c, at); to > at {
			at, last, slot = to, moverOther, true
		}
		if at == before {
			break
		}
	}
	return at, last, slot
}

// anyChannelFree returns the least instant from at on at which a channel is free, and what
// moved that one.
func (d *decision) anyChannelFree(at engine.Millis) (free engine.Millis, last mover, slot bool) {
	for i, c := range d.allowed {
		if i > 0 && d.alike {
			break
		}
		if to, by, limited := d.channelFree(c, at); i == 0 || to < free {
			free, last, slot = to, by, limited
		}
	}
	return free, last, slot
}

// anyHushed returns the least instant from at on at which quiet hours and snooze let one of
// the channels through.
func (d *decision) anyHushed(channels []Channel, at engine.Millis) (free engine.Millis) {
	for i, c := range channels {
		if to := d.hushed(c, at); i == 0 || to < free {
			free = to
		}
	}
	return free
}

// allAlike reports whether the same holds each channel.
func (d *decision) allAlike() bool {
	for i := range d.bounds {
		if d.bounds[i].names != 0 {
			return false
		}
	}
	awake := d.set.Policy.Awake & SetOf(d.allowed)
	return awake == 0 || awake == SetOf(d.allowed)
}

// openChannels splits the channels that the user allows into those that are free at an
// instant and the others.
func (d *decision) openChannels(free func(Channel) bool) (open, held []Channel) {
	for i, c := range d.allowed {
		if free(c) {
			continue
		}
		open = slices.Clone(d.allowed[:i])
		for _, c := range d.allowed[i:] {
			if free(c) {
				open = append(open, c)
			} else {
				held = append(held, c)
			}
		}
		return open, held
	}
	return d.allowed, nil
}

// holdChannels finds which channels are open now, and what holds the event where none is.
func (d *decision) holdChannels() {
	h := &d.holds
	d.alike = d.allAlike()
	if d.alike && len(d.allowed) > 0 {
		// One channel stands for all.
		if free, _, _ := d.channelFree(d.allowed[0], d.now); free <= d.now {
			d.open, d.held = d.allowed, nil
		} else {
			d.open, d.held = nil, d.allowed
		}
	} else {
		d.open, d.held = d.openChannels(func(c Channel) bool {
			free, _, _ := d.channelFree(c, d.now)
			return free <= d.now
		})
	}
	d.record.Facts.Held = d.held
	if len(d.open) > 0 {
		return
	}
	for _, c := range d.allowed {
		h.limit = h.limit || d.channelFrees(c, d.now) > d.now
		h.snooze = h.snooze || h.quietApplies && d.record.Facts.SnoozedTo > d.now
		h.quiet = h.quiet || h.quietApplies && d.record.Facts.QuietEnd != 0 && !d.set.Policy.Awake.Has(c)
	}
}
