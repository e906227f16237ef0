package notifyoracle

import (
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Slot is a send that is kept for an event that waits.
type Slot struct {
	Event uuid.UUID
	Send
	Made engine.Millis
}

// keepSlots takes in what a decision does to the slots: its event's own ends, those it has
// taken move, and what waits for one gets it.
func (s *State) keepSlots(d *Decision) {
	s.Slots = slices.DeleteFunc(s.Slots, func(o Slot) bool { return o.Event == d.EventID })
	for _, m := range d.Moved {
		if i := slices.IndexFunc(s.Slots, func(o Slot) bool { return o.Event == m.EventID }); i >= 0 {
			moved := s.Slots[i]
			moved.At = m.At
			s.Slots = inOrder(append(slices.Delete(s.Slots, i, i+1), moved))
		}
	}
	if d.Reserved {
		kept := d.Send
		kept.At = d.DeferUntil
		s.Slots = inOrder(append(s.Slots, Slot{d.EventID, kept, d.DecidedAt}))
	}
}

// inOrder sorts slots by time; of equal ones the later one to come stays behind.
func inOrder(all []Slot) []Slot {
	slices.SortStableFunc(all, func(a, b Slot) int { return int(a.At - b.At) })
	return all
}

// slotOf returns the event's own slot.
func (s *State) slotOf(event uuid.UUID) *Slot {
	for i := range s.Slots {
		if s.Slots[i].Event == event {
			return &s.Slots[i]
		}
	}
	return nil
}

// seeOthers chooses the slots that are in the event's way: those of others, for the urgent
// class those of its class only.
func (t *turn) seeOthers() {
	t.slots = nil
	for _, o := range t.state.Slots {
		if o.Event != t.event.ID && (o.Type.Urgent() || !t.event.Type.Urgent()) {
			t.slots = append(t.slots, o)
		}
	}
}

// instants are all that is sent and all that is kept, in order, as caps count it: without
// follow-ups.
func instants(sends []engine.Millis, kept []Slot) []engine.Millis {
	all := slices.Clone(sends)
	for _, o := range kept {
		if !o.Follow {
			all = append(all, o.At)
		}
	}
	slices.Sort(all)
	return all
}

// full reports whether one more at an instant is too many for a window: for the one that
// ends there or one that ends with a later instant and still holds it.
func full(all []engine.Millis, limit int, w, at engine.Millis) bool {
	count := func(end engine.Millis) (n int) {
		for _, one := range all {
			if end-w < one && one <= end {
				n++
			}
		}
		return n
	}
	if count(at) >= limit {
		return true
	}
	for _, end := range all {
		if at < end && end < at+w && count(end) >= limit {
			return true
		}
	}
	return false
}

// roomFrom returns the least instant from at on at which a window is not full: at itself,
// or one at which something leaves it.
func roomFrom(all []engine.Millis, limit int, w, at engine.Millis) engine.Millis {
	if !full(all, limit, w, at) {
		return at
	}
	for _, one := range all {
		if leaves := one + w; leaves > at && !full(all, limit, w, leaves) {
			return leaves
		}
	}
	panic("a window that stays full")
}

// pauseFrom returns the least instant from at on that is a cooldown away from the last send
// of a type and from each slot of it.
func (t *turn) pauseFrom(kept []Slot, kind notify.EventType, at engine.Millis) engine.Millis {
	pause := t.set.Policy.Types[kind].Cooldown
	if last := t.state.LastSend[kind]; last != 0 {
		at = max(at, last+pause)
	}
	for moved := true; moved; {
		moved = false
		for _, o := range kept {
			if o.Type == kind && !o.Follow && o.At-pause < at && at < o.At+pause {
				at, moved = o.At+pause, true
			}
		}
	}
	return at
}

// takePlaces moves the bulk slots that an urgent event's send leaves no room for.
func (t *turn) takePlaces(at engine.Millis) {
	if t.rule.bypasses("caps") || !t.event.Type.Urgent() {
		return
	}
	var kept, moving []Slot
	for _, o := range t.state.Slots {
		if o.Event != t.event.ID {
			kept = append(kept, o)
		}
	}
	sent := t.decision.Send
	sent.At = at
	for {
		i := t.displaced(kept, &sent)
		if i < 0 {
			break
		}
		moving = append(moving, kept[i])
		kept = slices.Delete(kept, i, i+1)
	}
	for _, m := range moving {
		m.At = t.nextPlace(&sent, kept, m)
		kept = inOrder(append(kept, m))
		t.decision.Moved = append(t.decision.Moved, notify.Move{EventID: m.Event, At: m.At})
	}
}

// displaced returns the bulk slot that gives way first: of caps before limits, of these in
// the policy's order.
func (t *turn) displaced(kept []Slot, sent *Send) int {
	if t.policy.Capped && !sent.Follow {
		capped := func(o *Send) bool { return !o.Follow }
		for i, w := range notify.Windows {
			if j := crowded(kept, capped, instants(t.state.Sends, kept), t.decision.Caps[i], w, sent.At); j >= 0 {
				return j
			}
		}
	}
	for _, b := range boundsOf(&t.set.Policy, sent, t.state.Sent, kept) {
		if !counts(b.Limit, sent, sent) {
			continue // it goes out on other channels
		}
		counted := func(o *Send) bool { return counts(b.Limit, o, sent) }
		if j := crowded(kept, counted, b.taken, b.Most, b.Within, sent.At); j >= 0 {
			return j
		}
	}
	return -1
}

// crowded returns the bulk slot that gives way in a window: the earliest group that makes it
// full counts, of that the latest slot.
func crowded(kept []Slot, counts func(*Send) bool, all []engine.Millis, n int, w, at engine.Millis) int {
	for begin := 0; begin+n <= len(all); begin++ {
		group := all[begin : begin+n]
		if max(group[n-1], at)-min(group[0], at) >= w {
			continue
		}
		for j := len(kept) - 1; j >= 0; j-- {
			if o := &kept[j]; !o.Type.Urgent() && counts(&o.Send) && o.At >= group[0] && o.At <= group[n-1] {
				return j
			}
		}
	}
	return -1
}

// nextPlace is the next instant at which a slot's event can be sent, found in at most eight
// rounds.
func (t *turn) nextPlace(sent *Send, kept []Slot, m Slot) engine.Millis {
	policy := t.set.Policy.Types[m.Type]
	w := &waiter{
		send: m.Send, wish: wishOf(&t.set.Policy, &t.prefs, m.Type, m.Source),
		quiet: policy.Quiet, channels: m.Channels,
	}
	sends := append(slices.Clone(t.state.Sent), *sent)
	w.bounds = boundsOf(&t.set.Policy, &m.Send, sends, kept)
	all := slices.Clone(t.state.Sends)
	if !sent.Follow {
		all = append(all, sent.At)
	}
	all = instants(all, kept)
	at := max(m.At, t.now)
	for range 8 {
		began := at
		if policy.Capped && !m.Follow {
			for i, w := range notify.Windows {
				at = roomFrom(all, t.decision.Caps[i], w, at)
			}
		}
		for i := range w.bounds {
			if b := &w.bounds[i]; counts(b.Limit, &m.Send, &m.Send) {
				at = b.roomFrom(at)
			}
		}
		if !m.Follow {
			at = t.pauseFrom(kept, m.Type, at)
		}
		if len(m.Channels) > 0 {
			at, _, _ = t.anyFree(w, at)
		}
		if at == began {
			break
		}
	}
	return at
}

// moves says what becomes of an event that has a slot and is held, where its turn is not
// used: before its slot it waits for it, or for an instant that is free before; where only
// late sends hold it, it waits less than the shortest window.
func (t *turn) moves(own *Slot, w *waiter, blockers []blocker) bool {
	if t.ruleWaits() || len(t.heldStages()) == 0 {
		return false
	}
	at, settled, _ := t.freeFrom(w, blockers)
	switch {
	case own.At > t.now && (!settled || at > own.At):
		at = own.At
	case own.At > t.now:
	case t.held(notify.ReasonQuietHours) || t.held(notify.ReasonSnoozed) || !settled || at >= t.now+5*minute:
		return false
	}
	t.decision.Outcome, t.decision.DeferUntil = notify.Postponed, at
	return true
}
