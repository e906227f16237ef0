package oracle

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

// deferUntilFree defers to the least instant at which nothing holds, found in at most
// eight rounds, and spreads what quiet hours and mornings have gathered.
func (t *turn) deferUntilFree(blockers []blocker) {
	at, spread, moved := t.now, false, true
	for round := 0; round < 8 && moved; round++ {
		moved = false
		for _, b := range blockers {
			if free := b.free(at); free > at {
				at, spread, moved = free, b.spread, true
			}
		}
	}
	if moved {
		t.never(notify.ReasonExpiresFirst)
		return
	}
	if spread {
		by := engine.Millis(xxhash.Sum64(t.event.ID[:]) % 600_001)
		if t.event.ExpiresAt != 0 {
			by = max(0, min(by, t.event.ExpiresAt-1-at))
		}
		at += by
	}
	t.decision.DeferUntil = at
}

// expiresFirst is stage 12.
func (t *turn) expiresFirst() {
	d := &t.decision
	if d.DeferUntil != 0 && t.event.ExpiresAt != 0 && d.DeferUntil >= t.event.ExpiresAt {
		t.never(notify.ReasonExpiresFirst)
		d.DeferUntil, d.Slot, d.DigestKey = 0, 0, ""
	}
}
