package notifyoracle

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// deferToSlot defers to the next slot for digests. Only quiet hours and snooze move it.
func (t *turn) deferToSlot() {
	slot := t.anyAwake(t.allowed, t.nextDigest())
	t.decision.Slot, t.decision.DeferUntil, t.decision.DigestKey = slot, slot, t.digestKey()
	if slices.Contains(t.waits, notify.ReasonTopicDigest) {
		t.decision.DigestKey = t.wish.topic
	}
}

// nextDigest is the next of the user's times of digests, else of those of the settings.
func (t *turn) nextDigest() engine.Millis {
	if len(t.prefs.Digests) > 0 {
		return t.zone.nextPass(t.now, t.prefs.Digests...)
	}
	return t.zone.nextPass(t.now, t.set.Digests...)
}

// deferUntilFree defers to the least instant at which nothing holds, and keeps a slot there
// for what waits for a cap, a limit or a cooldown.
func (t *turn) deferUntilFree(w *waiter, blockers []blocker) {
	at, settled, slot := t.freeFrom(w, blockers)
	if !settled {
		t.never(notify.ReasonExpiresFirst)
		return
	}
	d := &t.decision
	d.DeferUntil = at
	if t.event.ExpiresAt != 0 && at >= t.event.ExpiresAt {
		return // stage 12
	}
	if slot || slices.ContainsFunc(stages[:5], t.held) {
		t.reserve(w, at)
	}
}

// reserve keeps a slot where there is room for one.
func (t *turn) reserve(w *waiter, at engine.Millis) {
	others := len(t.state.Slots)
	if t.state.slotOf(t.event.ID) != nil {
		others--
	}
	d := &t.decision
	if d.Reserved = others+t.state.count(24*60*minute, t.now) < notify.MaxSends; d.Reserved {
		d.Send.Channels = t.freeAt(w, at)
		t.takePlaces(at)
	}
}

// freeFrom finds the least instant at which nothing holds, in at most eight rounds, and
// spreads what quiet hours and mornings have gathered; what is in the way there moves it on.
func (t *turn) freeFrom(w *waiter, blockers []blocker) (at engine.Millis, settled, slot bool) {
	at = t.now
	spread := false
	pass := func() (moved bool) {
		for _, b := range blockers {
			if free := b.free(at); free > at {
				at, spread, moved, slot = free, b.spread, true, slot || b.slot
			}
		}
		if free, last, slots := t.anyFree(w, at); free > at {
			at, spread, moved, slot = free, last.spread, true, slot || slots
		}
		return moved
	}
	for range 8 {
		moved := pass()
		if !moved && spread {
			at, spread = at+t.spreadAfter(w, at), false
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
func (t *turn) spreadAfter(w *waiter, at engine.Millis) engine.Millis {
	room := engine.Millis(600_000)
	if w.quiet {
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
		if slices.Contains(t.waits, notify.ReasonTopicDigest) || slices.Contains(d.Reasons, notify.ReasonReplaces) {
			t.waits = t.heldStages() // these reasons are of no stage, and stand for the rule's
		}
		t.never(notify.ReasonExpiresFirst)
		d.DeferUntil, d.Slot, d.DigestKey, d.Reserved = 0, 0, "", false
	}
}
