package notifyoracle

import (
	"github.com/cespare/xxhash/v2"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// deferToSlot defers to the next slot for digests. Only quiet hours move it.
func (t *turn) deferToSlot() {
	slot := t.zone.nextPass(t.now, t.set.Digests...)
	if t.policy.Quiet {
		slot = t.zone.quietEnd(t.prefs.Quiet, slot)
	}
	t.decision.Slot, t.decision.DeferUntil, t.decision.DigestKey = slot, slot, t.digestKey()
}

// deferUntilFree defers to the least instant at which nothing holds, and keeps a slot there
// for what waits for a cap or a cooldown.
func (t *turn) deferUntilFree(blockers []blocker) {
	at, settled, slot := t.freeFrom(blockers)
	if !settled {
		t.never(notify.ReasonExpiresFirst)
		return
	}
	d := &t.decision
	d.DeferUntil = at
	if t.event.ExpiresAt != 0 && at >= t.event.ExpiresAt {
		return // stage 12
	}
	for _, b := range blockers {
		slot = slot || b.slot && t.held(b.reason)
	}
	others := len(t.state.Slots)
	if t.state.slotOf(t.event.ID) != nil {
		others--
	}
	if d.Reserved = slot && others+t.state.count(24*60*minute, t.now) < notify.MaxSends; d.Reserved {
		t.takePlaces(at)
	}
}

// freeFrom finds the least instant at which nothing holds, in at most eight rounds, and
// spreads what quiet hours and mornings have gathered; what is in the way there moves it on.
func (t *turn) freeFrom(blockers []blocker) (at engine.Millis, settled, slot bool) {
	at = t.now
	spread := false
	pass := func() (moved bool) {
		for _, b := range blockers {
			if free := b.free(at); free > at {
				at, spread, moved, slot = free, b.spread, true, slot || b.slot
			}
		}
		return moved
	}
	for range 8 {
		moved := pass()
		if !moved && spread {
			at, spread = at+t.spreadAfter(at), false
			moved = pass()
		}
		if !moved {
			return at, true, slot
		}
	}
	return at, false, slot
}

// spreadAfter is how far the event is spread after an instant: before the next quiet minute
// and before it expires.
func (t *turn) spreadAfter(at engine.Millis) engine.Millis {
	room := engine.Millis(600_000)
	if t.policy.Quiet && !t.rule.bypasses("quiet_hours") {
		for m := nextMinute(at); m <= at+room; m = nextMinute(m) {
			if t.zone.quiet(t.prefs.Quiet, m) {
				room = m - at - 1
			}
		}
	}
	by := engine.Millis(xxhash.Sum64(t.event.ID[:]) % uint64(room+1))
	if t.event.ExpiresAt != 0 {
		by = max(0, min(by, t.event.ExpiresAt-1-at))
	}
	return by
}

// expiresFirst is stage 12.
func (t *turn) expiresFirst() {
	d := &t.decision
	if d.DeferUntil != 0 && t.event.ExpiresAt != 0 && d.DeferUntil >= t.event.ExpiresAt {
		t.never(notify.ReasonExpiresFirst)
		d.DeferUntil, d.Slot, d.DigestKey = 0, 0, ""
	}
}
