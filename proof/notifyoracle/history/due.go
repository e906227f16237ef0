package history

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/proof/notifyoracle"
)

// decideDue decides the deferrals that are due up to an instant, some of them late.
func (h *history) decideDue(until engine.Millis) error {
	for {
		first, some := h.nextDue()
		if !some || first.DueAt > until {
			return nil
		}
		h.now = max(h.now, first.DueAt)
		if h.rng.chance(4) {
			h.now = min(until, h.now+h.rng.span(2*hour))
		}
		if err := h.decideOne(first); err != nil {
			return err
		}
	}
}

// nextDue returns what is due first of all people, whose turn it is then.
func (h *history) nextDue() (first waiting, some bool) {
	for _, p := range h.people {
		for _, d := range p.waiting {
			if !some || cmp.Or(cmp.Compare(d.DueAt, first.DueAt), bytes.Compare(d.Event.ID[:], first.Event.ID[:])) < 0 {
				first, some, h.person = d, true, p
			}
		}
	}
	return first, some
}

// decideOne decides a deferral, with those that are due of its digest.
func (h *history) decideOne(first waiting) error {
	var group, rest []waiting
	for _, d := range h.waiting {
		together := d.Event.ID == first.Event.ID ||
			first.DigestKey != "" && d.DigestKey == first.DigestKey && d.Slot == first.Slot && d.DueAt <= h.now
		if together {
			group = append(group, d)
		} else {
			rest = append(rest, d)
		}
	}
	h.waiting = rest
	first.Turn.Reported = h.reported(first.Event.Follows)
	for i := range group {
		group[i].Turn.Reported = h.reported(group[i].Event.Follows)
	}
	if first.DigestKey == "" {
		return h.decide(first)
	}
	return h.decideDigest(group)
}

// decideDigest decides the items of a digest on both sides.
func (h *history) decideDigest(group []waiting) error {
	id := func(first uuid.UUID) uuid.UUID {
		return notify.DigestID(h.id, group[0].DigestKey, group[0].Slot, first)
	}
	var dues []notify.Due
	var items []notifyoracle.Item
	for _, d := range group {
		dues = append(dues, d.Due)
		items = append(items, notifyoracle.Item{Event: d.event, Turn: d.Turn.Number, Spent: d.Turn.Spent, Key: d.DigestKey, Reported: d.Turn.Reported})
	}
	if slices.ContainsFunc(group, func(d waiting) bool { return d.Event.UserID != group[0].Event.UserID }) {
		h.Seen[ofTwo]++
	}
	before := h.state.Append(nil)
	got := notify.DecideDigest(h.set.theirs, &h.prefs, h.state, dues, make([]notify.Score, len(dues)), h.now)
	if !bytes.Equal(before, h.state.Append(nil)) {
		return fmt.Errorf("DecideDigest has changed the state")
	}
	want := h.user.Digest(h.set.ours, items, id, h.now)
	if len(got) != len(want) {
		return fmt.Errorf("a digest of %d items has %d records", len(want), len(got))
	}
	messages := map[uuid.UUID]bool{}
	for i := range want {
		messages[want[i].DigestID] = true
		at := slices.IndexFunc(group, func(d waiting) bool { return d.Event.ID == want[i].EventID })
		if err := h.compare(&want[i], &got[i]); err != nil {
			return err
		}
		if err := h.fold(group[at], &got[i]); err != nil {
			return err
		}
	}
	if delete(messages, uuid.Nil); len(messages) > 1 {
		h.Seen[severalMessages]++
	}
	return h.compareState()
}

// severalMessages is the case of a digest that one message has no room for.
var severalMessages = Case{notify.Now, "several messages"}
