package notify

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"keyfold/engine"
)

const (
	fixedDelay = engine.Millis(15 * 60 * 1000)
	// maxSpread is how far events that wait for a quiet span or for a morning to end
	// are spread, in milliseconds.
	maxSpread = 10 * 60 * 1000
	// maxRounds bounds the search for an instant at which nothing holds an event.
	maxRounds = 8
)

// defers ends the decision with LATER, or with what follows where it cannot wait:
// the limit of deferrals, or an expiry before the deferral ends. strategy is a
// rule's, 0 for none.
func (d *decision) defers(strategy Strategy, reasons []string) {
	d.record.Facts.Strategy = strategy
	if d.turn.Number >= MaxTurn {
		d.limited()
		return
	}
	if strategy == DigestWindow {
		d.digests(reasons)
		return
	}
	until, settled := d.until(strategy)
	if !settled {
		d.never(ReasonExpiresFirst, d.collected()...)
		return
	}
	if d.waits(Later, until, reasons); d.record.Outcome == Later {
		d.reserves()
	}
}

// waits ends the decision with LATER or Postponed, unless the event expires first.
func (d *decision) waits(outcome Outcome, until engine.Millis, reasons []string) {
	if expires := d.event.ExpiresAt; expires != 0 && until >= expires {
		d.never(ReasonExpiresFirst, d.collected()...)
		return
	}
	d.record.Outcome, d.record.Reasons, d.record.DeferUntil = outcome, reasons, until
	if outcome == Later && d.says(Later) {
		d.spend()
	}
}

// limited ends a decision that would defer the event once more than it may be.
// Quiet hours are kept even so.
func (d *decision) limited() {
	switch {
	case !d.policy.NowAtLimit:
		d.never(ReasonDeferLimit, d.collected()...)
	case d.holds.quiet:
		d.waits(Postponed, d.record.Facts.QuietEnd, []string{ReasonDeferLimit})
	default:
		d.sends(ReasonDeferLimit, d.collected()...)
	}
}

// mover is what moved an instant last.
type mover uint8

const (
	moverNone mover = iota
	moverRule
	moverOther
	moverQuiet
)

// until returns the least instant at which nothing that applies holds the event,
// as the state is now, and the spread of the event after it. settled is false where
// the instant still moves after maxRounds.
func (d *decision) until(strategy Strategy) (until engine.Millis, settled bool) {
	if strategy != 0 {
		d.record.Facts.RuleUntil = d.strategyEnd(strategy)
	}
	until = d.now
	last := moverNone
	for range maxRounds {
		next, moved := d.move(until)
		if moved == moverNone {
			// Its spread may meet a reservation, which moves it on.
			until += d.spread(until, last, strategy)
			if next, moved = d.move(until); moved == moverNone {
				return until, true
			}
		}
		until, last = next, moved
	}
	return until, false
}

// move asks each that applies for its least instant from there on, in their order.
func (d *decision) move(until engine.Millis) (engine.Millis, mover) {
	moved := moverNone
	to := func(instant engine.Millis, by mover) {
		if instant > until {
			until, moved = instant, by
			d.waitsForSlot = d.waitsForSlot || by == moverOther
		}
	}
	to(d.record.Facts.RuleUntil, moverRule)
	if d.holds.capsApply {
		for i := range Windows {
			to(d.frees(i, until), moverOther)
		}
	}
	if d.holds.cooldownApplies {
		to(d.cooled(until), moverOther)
	}
	if d.holds.quietApplies && len(d.prefs.Quiet) > 0 {
		to(d.prefs.Quiet.End(d.prefs.Zone, until), moverQuiet)
	}
	return until, moved
}

// strategyEnd returns the instant of a rule's strategy.
func (d *decision) strategyEnd(strategy Strategy) engine.Millis {
	zone := d.prefs.Zone
	switch strategy {
	case FixedDelay15m:
		return d.now + fixedDelay
	case NextHour:
		return zone.NextHour(d.now)
	case NextQuietEnd:
		if end := d.prefs.Quiet.NextEnd(zone, d.now); end != 0 {
			return end
		}
	}
	return zone.Next(d.now, d.set.Local.Morning)
}

// spread returns how long after an instant at which many wake up the event does,
// so that it still fits before its expiry.
func (d *decision) spread(until engine.Millis, last mover, strategy Strategy) engine.Millis {
	if last != moverQuiet && (last != moverRule || strategy != NextMorning && strategy != NextQuietEnd) {
		return 0
	}
	spread := engine.Millis(xxhash.Sum64(d.event.ID[:]) % uint64(d.room(until)+1))
	if d.event.ExpiresAt != 0 {
		spread = max(0, min(spread, d.event.ExpiresAt-1-until))
	}
	return spread
}

// room returns how far an event may be spread: not into quiet hours that begin meanwhile.
func (d *decision) room(until engine.Millis) engine.Millis {
	if d.holds.quietApplies && len(d.prefs.Quiet) > 0 {
		// Quiet hours begin at whole minutes.
		const minute = 60_000
		for at := (until/minute + 1) * minute; at <= until+maxSpread; at += minute {
			if d.prefs.Quiet.Contains(d.prefs.Zone, at) {
				return at - 1 - until
			}
		}
	}
	return maxSpread
}

// collected returns the reasons that make an event wait, in the order of their stages: a
// rule's, and those of caps, cooldown and quiet hours.
func (d *decision) collected() []string {
	if d.says(Later) {
		return append([]string{d.action.Reason}, d.held()...)
	}
	return d.held()
}

// digests ends the decision with a LATER until the next slot for digests. Quiet
// hours alone move the slot.
func (d *decision) digests(reasons []string) {
	slot := d.prefs.Zone.Next(d.now, d.set.Local.Digests...)
	if d.holds.quietApplies {
		slot = d.prefs.Quiet.End(d.prefs.Zone, slot)
	}
	if d.says(Later) {
		d.record.Facts.RuleUntil = slot
	}
	d.waits(Later, slot, reasons)
	if d.record.Outcome == Later {
		d.record.Slot, d.record.DigestKey = slot, d.digestKey()
	}
}

// digestKey returns the key of the event's digest.
func (d *decision) digestKey() string {
	if d.action == nil || len(d.action.DigestKey) == 0 {
		return d.event.Type.String()
	}
	values := make([]string, len(d.action.DigestKey))
	for i, name := range d.action.DigestKey {
		values[i] = d.event.text(name)
	}
	return groupKey(values)
}

// text returns the value of a field as a key of digests has it, "" where there is
// none.
func (n *Notification) text(name string) string {
	switch name {
	case "event_type":
		return n.Type.String()
	case "priority_hint":
		return n.Hint.String()
	case "source":
		return n.Source
	case "user_id":
		return n.UserID
	case "dedupe_key":
		return n.DedupeKey
	case "title":
		return n.Title
	case "message":
		return n.Message
	case "channel":
		names := make([]string, len(n.Channels))
		for i, c := range n.Channels {
			names[i] = c.String()
		}
		return strings.Join(names, ",")
	}
	path, _ := strings.CutPrefix(name, "metadata.")
	return n.Metadata.Get(path).text()
}

// text returns the text of a scalar, "" for another value.
func (v Value) text() string {
	if v.Kind == Bool {
		if v.Bool {
			return "true"
		}
		return "false"
	}
	return v.Text
}
