package notify

import (
	"slices"
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

// limited is the stage of the limit of deferrals: it ends a decision that would defer the
// event once more than it may be. Quiet hours are kept even so.
func (d *decision) limited() bool {
	switch {
	case d.wait.outcome != 0 || d.turn.Number < MaxTurn:
		return false
	case !d.policy.NowAtLimit:
		return d.never(ReasonDeferLimit, d.collected...)
	}
	if end := d.anyHushed(d.allowed, d.now); end > d.now {
		d.wait = wait{outcome: Postponed, until: end, reasons: []string{ReasonDeferLimit}}
		return false
	}
	d.open, d.held = d.openChannels(func(c Channel) bool { return d.hushed(c, d.now) <= d.now })
	d.record.Facts.Held = d.held
	return d.sends(ReasonDeferLimit, d.collected...)
}

// expiresFirst is the stage of an expiry before the deferral ends. A deferral that does
// not settle has no end.
func (d *decision) expiresFirst() bool {
	expires := d.event.ExpiresAt
	if !d.defers() || expires != 0 && d.wait.until >= expires {
		return d.never(ReasonExpiresFirst, d.collected...)
	}
	return false
}

// defers finds how long the event waits, where no stage has, and reports whether it has
// an end.
func (d *decision) defers() bool {
	strategy := d.record.Facts.Strategy
	switch {
	case d.wait.outcome != 0:
	case strategy == DigestWindow, strategy == 0 && d.policy.CappedToDigest && d.holds.fatigue():
		d.digests(nil)
	default:
		until, settled := d.until(strategy)
		if !settled {
			return false
		}
		d.wait = wait{outcome: Later, until: until}
	}
	return true
}

// postpone ends the decision with LATER or Postponed.
func (d *decision) postpone() {
	r, w := d.record, &d.wait
	if r.Reasons = w.reasons; r.Reasons == nil {
		r.Reasons = slices.Clone(d.collected)
	}
	r.Outcome, r.DeferUntil, r.Slot, r.DigestKey = w.outcome, w.until, w.slot, w.digestKey
	if w.outcome == Later && d.says(Later) {
		d.spend()
	}
	if w.outcome == Later && w.slot == 0 {
		d.reserves()
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
	if d.holds.limitsApply {
		to(d.limitFrees(until), moverOther)
	}
	free, by, slot := d.anyChannelFree(until)
	d.waitsForSlot = d.waitsForSlot || slot && free > until
	to(free, by)
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
	case LikelyHour:
		return d.likelyHour()
	case NextQuietEnd:
		if end := d.prefs.Quiet.NextEnd(zone, d.now); end != 0 {
			return end
		}
	}
	return zone.Next(d.now, d.set.Local.Morning)
}

// likelyHour returns the start of the hour at which the user is likely to open; now where it
// is not known, is this one, or comes after the rule's bound.
func (d *decision) likelyHour() engine.Millis {
	const hour = engine.Millis(60 * 60 * 1000)
	h := d.record.Facts.Taste.Habit
	if h == (Habit{}) || h.Hour < 0 {
		return d.now
	}
	hours := (h.Hour - d.now.Time().UTC().Hour() + 24) % 24
	if at := d.now/hour*hour + engine.Millis(hours)*hour; hours > 0 && at-d.now <= d.action.Within {
		return at
	}
	return d.now
}

// spread returns how long after an instant at which many wake up the event does,
// so that it still fits before its expiry.
func (d *decision) spread(until engine.Millis, last mover, strategy Strategy) engine.Millis {
	if last != moverQuiet && (last != moverRule || strategy != NextMorning && strategy != NextQuietEnd && strategy != LikelyHour) {
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

// digests makes the event wait until the next slot for digests. Quiet hours alone move
// the slot.
func (d *decision) digests(reasons []string) {
	slot := d.digestSlot(d.allowed)
	if d.says(Later) {
		d.record.Facts.RuleUntil = slot
	}
	d.wait = wait{Later, slot, reasons, slot, d.digestKey()}
}

// digestSlot returns the next time of the user's digests at which quiet hours leave one of the
// channels alone. A rule's NOW does not pass them here: items of a digest are not forced.
func (d *decision) digestSlot(channels []Channel) engine.Millis {
	applies := d.holds.quietApplies
	d.holds.quietApplies = d.policy.Quiet
	slot := d.anyHushed(channels, d.nextDigest())
	d.holds.quietApplies = applies
	return slot
}

// nextDigest returns the next time of the user's digests.
func (d *decision) nextDigest() engine.Millis {
	times := d.set.Local.Digests
	if len(d.prefs.Digests) > 0 {
		times = d.prefs.Digests
	}
	return d.prefs.Zone.Next(d.now, times...)
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
