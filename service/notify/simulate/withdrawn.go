package simulate

import (
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// ends reports whether a record ends an event by the wish of the service that sent it.
func ends(r *notify.Record) bool {
	return len(r.Reasons) > 0 && (r.Reasons[0] == notify.ReasonCancelled || r.Reasons[0] == notify.ReasonReplaced)
}

// end ends what waits, or what has not come yet, as it was recorded.
func (u *user) end(d *notify.Decided) {
	r := &d.Record
	found := u.remove(func(o *waiting) bool { return o.Event.ID == r.EventID })
	if len(found) == 0 {
		if !u.arrives(r) {
			return
		}
		found = []waiting{{Due: notify.Due{Event: d.Event, Turn: notify.Turn{Number: r.Turn, Spent: r.Spent}}}}
	}
	if found[0].aligned && r.Facts.Due != 0 {
		found[0].DueAt = r.Facts.Due // it may have been moved without a turn
	}
	u.endOne(&found[0], r.Reasons[0], r.DuplicateOf, r.DecidedAt, &r.Facts.Preferences)
}

// replace ends what the candidate has waiting beside what was recorded, and returns the
// place of the one that is due first.
func (u *user) replace(e *notify.Notification, now engine.Millis, prefs *notify.Preferences) *notify.Place {
	all := u.remove(func(o *waiting) bool { return e.Replaces.Of(e, o.Event) })
	slices.SortStableFunc(all, func(a, b waiting) int { return compare(&a, &b) })
	for i := range all {
		u.endOne(&all[i], notify.ReasonReplaced, e.ID, now, prefs)
	}
	return u.takes[e.ID]
}

func (u *user) endOne(w *waiting, reason string, by uuid.UUID, now engine.Millis, prefs *notify.Preferences) {
	if w.Event.Follows == nil && by != uuid.Nil && by != w.Event.ID && (u.takes[by] == nil || u.takes[by].DueAt > w.DueAt) {
		place := &notify.Place{DueAt: w.DueAt, DigestKey: w.DigestKey, Slot: w.Slot, Reserved: u.state.Keeps(w.Event.ID)}
		if w.DigestKey != "" {
			place.Slot = w.DueAt
		}
		u.takes[by] = place
	}
	turn := w.Turn
	turn.Due = w.DueAt
	u.add(w, notify.End(u.set, prefs, &u.state, w.Event, turn, reason, by, max(now, u.state.DecidedAt)))
}
