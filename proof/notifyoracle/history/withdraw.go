package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/proof/notifyoracle"
)

// report is what a sender says of an event, and when.
type report struct {
	at   engine.Millis
	says notify.Reported
}

// hear draws what senders will say of a NOW.
func (h *history) hear(event uuid.UUID) {
	g := h.rng
	for range g.IntN(3) {
		h.reports[event] = append(h.reports[event], report{h.now + g.span(3*hour), pick(g, []notify.Reported{
			notify.WasDelivered, notify.WasDelivered, notify.WasOpened, notify.WasClicked, notify.WasDismissed,
		})})
	}
}

// reported returns what was reported by now of the steps before a follow-up.
func (h *history) reported(f *notify.Follows) (all notify.Reported) {
	if f == nil {
		return 0
	}
	for _, id := range notifyoracle.StepsBefore(f) {
		for _, r := range h.reports[id] {
			if r.at <= h.now {
				all |= r.says
			}
		}
	}
	return all
}

// followUp lets a follow-up wait on both sides.
func (h *history) followUp(parent waiting, f *notify.FollowUp) error {
	due, err := parent.Event.FollowUp(f)
	if err != nil {
		return err
	}
	child := notifyoracle.Event{Notification: notifyoracle.Child(parent.event.Notification, f), Object: parent.event.Object}
	child.Body = due.Event.Body
	h.waiting = append(h.waiting, waiting{due, child})
	return nil
}

// isOf reports whether an event has an id, or follows the one that has it.
func isOf(e *notify.Notification, id uuid.UUID) bool {
	return e.ID == id || e.Follows != nil && e.Follows.Root == id
}

// withdraw ends what waits and is so. It returns the place of what is due first.
func (h *history) withdraw(are func(*notify.Notification) bool, reason string, by uuid.UUID) (place *notify.Place, err error) {
	var all []waiting
	h.waiting = slices.DeleteFunc(h.waiting, func(d waiting) bool {
		if !are(d.Event) {
			return false
		}
		all = append(all, d)
		return true
	})
	slices.SortFunc(all, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), notify.CompareEvents(a.Event, b.Event))
	})
	for _, d := range all {
		if place == nil && d.Event.Follows == nil {
			kept := h.user.HasSlot(d.Event.ID)
			if kept != h.state.Keeps(d.Event.ID) {
				return nil, fmt.Errorf("event %v: a slot is kept: %v", d.Event.ID, kept)
			}
			if place = (&notify.Place{DueAt: d.DueAt, DigestKey: d.DigestKey, Reserved: kept}); d.DigestKey != "" {
				place.Slot = d.DueAt
			}
		}
		now := max(h.now, h.state.DecidedAt)
		got := notify.End(h.set.theirs, &h.prefs, h.state, d.Event, d.Turn, reason, by, now)
		want := h.user.Withdraw(h.set.ours, d.event, turnOf(d, notify.Score{}), reason, by, h.now)
		if err := h.keep(d, &want, &got); err != nil {
			return nil, err
		}
	}
	return place, nil
}

// cancel cancels one event that waits, with its follow-ups, or all of a key.
func (h *history) cancel() error {
	g := h.rng
	if len(h.waiting) == 0 {
		return nil
	}
	d := pick(g, h.waiting).Event
	id := d.ID
	if d.Follows != nil {
		id = d.Follows.Root
	}
	are := func(e *notify.Notification) bool { return isOf(e, id) }
	if g.chance(3) && d.DedupeKey != "" {
		are = func(e *notify.Notification) bool { return e.DedupeKey == d.DedupeKey }
	}
	_, err := h.withdraw(are, notify.ReasonCancelled, uuid.Nil)
	return err
}

// replace draws what a new event replaces.
func (h *history) replace(e *notify.Notification) {
	g := h.rng
	switch {
	case !g.chance(6):
	case g.chance(3) && e.DedupeKey != "":
		e.Replaces.ByKey = true
	case len(h.waiting) > 0 && !g.chance(5):
		if d := pick(g, h.waiting).Event; d.Follows == nil {
			e.Replaces.Event = d.ID
		} else {
			e.Replaces.Event = d.Follows.Root
		}
	case len(h.state.Marks) > 0:
		e.Replaces.Event = pick(g, h.state.Marks).EventID
	}
}

// withdrawReplaced ends what an event replaces, and gives it the place.
func (h *history) withdrawReplaced(d *waiting) (err error) {
	e := d.Event
	if !e.Replaces.Any() {
		return nil
	}
	d.Turn.Takes, err = h.withdraw(func(o *notify.Notification) bool {
		return e.Replaces.Event != uuid.Nil && isOf(o, e.Replaces.Event) || e.Replaces.ByKey && o.DedupeKey == e.DedupeKey
	}, notify.ReasonReplaced, e.ID)
	return err
}
