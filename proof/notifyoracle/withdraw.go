package notifyoracle

import (
	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Withdraw says what must be decided of an event that waits and is cancelled or replaced, and
// keeps it: NEVER, with the event that replaces it.
func (u *User) Withdraw(set *Set, e Event, asked Turn, reason string, by uuid.UUID, now engine.Millis) Decision {
	t := u.begin(set, e, asked, now)
	if u.Erased {
		reason, by = notify.ReasonUserErased, uuid.Nil
	}
	t.never(reason)
	t.decision.DuplicateOf = by
	return t.end()
}

// Withdrawn reports whether a decision ended an event that waited, whatever else is so.
func Withdrawn(reasons []string) bool {
	return len(reasons) == 1 && (reasons[0] == notify.ReasonCancelled || reasons[0] == notify.ReasonReplaced)
}

// HasSlot reports whether a slot is kept for an event.
func (u *User) HasSlot(event uuid.UUID) bool { return u.State().slotOf(event) != nil }

// takePlace has the event wait where the one that it replaces has waited.
func (t *turn) takePlace(w *waiter) {
	d, place := &t.decision, t.asked.Takes
	d.Outcome, d.Reasons = notify.Later, []string{notify.ReasonReplaces}
	d.DeferUntil, d.DigestKey, d.Slot, d.Reserved = place.DueAt, place.DigestKey, place.Slot, place.Reserved
	if d.Reserved && (t.event.ExpiresAt == 0 || place.DueAt < t.event.ExpiresAt) {
		if d.Send.Channels = t.freeAt(w, place.DueAt); len(d.Send.Channels) == 0 {
			d.Send.Channels = w.channels
		}
		t.takePlaces(place.DueAt)
	}
}
