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
	Type  notify.EventType
	At    engine.Millis
	Made  engine.Millis
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
		s.Slots = inOrder(append(s.Slots, Slot{d.EventID, d.Type, d.DeferUntil, d.DecidedAt}))
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

// instants are all that is sent and all that is kept, in order.
func instants(sends []engine.Millis, kept []Slot) []engine.Millis {
	all := slices.Clone(sends)
	for _, o := range kept {
		all = append(all, o.At)
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
			if o.Type == kind && o.At-pause < at && at < o.At+pause {
				at, moved = o.At+pause, true
			}
		}
	}
	return at
}

// takePlaces moves the bulk slots that an urgent event's send leaves no room for.
func (t *turn) takePlaces(at engine.Millis) {
	if !t.policy.Capped || t.rule.bypasses("caps") || !t.event.Type.Urgent() {
		return
	}
	var kept, moving []Slot
	for _, o := range t.state.Slots {
		if o.Event != t.event.ID {
			kept = append(kept, o)
		}
	}
	for {
		i := t.displaced(kept, at)
		if i < 0 {
			break
		}
		moving = append(moving, kept[i])
		kept = slices.Delete(kept, i, i+1)
	}
	sends := append(slices.Clone(t.state.Sends), at)
	for _, m := range moving {
		m.At = t.nextPlace(sends, kept, m)
		kept = inOrder(append(kept, m))
		t.decision.Moved = append(t.decision.Moved, notify.Move{EventID: m.Event, At: m.At})
	}
}

// displaced returns the bulk slot that gives way first: the shortest window counts, in it
// the earliest group that makes it full, of that the latest slot.
func (t *turn) displaced(kept []Slot, at engine.Millis) int {
	all := instants(t.state.Sends, kept)
	for i, w := range notify.Windows {
		n := t.decision.Caps[i]
		for begin := 0; begin+n <= len(all); begin++ {
			group := all[begin : begin+n]
			if max(group[n-1], at)-min(group[0], at) >= w {
				continue
			}
			for j := len(kept) - 1; j >= 0; j-- {
				if !kept[j].Type.Urgent() && kept[j].At >= group[0] && kept[j].At <= group[n-1] {
					return j
				}
			}
		}
	}
	return -1
}

// nextPlace is the next instant at which a slot's event can be sent, found in at most eight
// rounds.
func (t *turn) nextPlace(sends []engine.Millis, kept []Slot, m Slot) engine.Millis {
	policy, all := t.set.Policy.Types[m.Type], instants(sends, kept)
	at := max(m.At, t.now)
	for range 8 {
		began := at
		if policy.Capped {
			for i, w := range notify.Windows {
				at = roomFrom(all, t.decision.Caps[i], w, at)
			}
		}
		at = t.pauseFrom(kept, m.Type, at)
		if policy.Quiet {
			at = t.zone.quietEnd(t.prefs.Quiet, at)
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
func (t *turn) moves(own *Slot, blockers []blocker) bool {
	if t.rule.says(notify.Later) {
		return false
	}
	at, settled, _ := t.freeFrom(blockers)
	switch {
	case own.At > t.now && (!settled || at > own.At):
		at = own.At
	case own.At > t.now:
	case t.held(notify.ReasonQuietHours) || !settled || at >= t.now+5*minute:
		return false
	}
	t.decision.Outcome, t.decision.DeferUntil = notify.Postponed, at
	return true
}
