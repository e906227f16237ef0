package notify

import (
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
)

// Reservation is a send that is kept for an event that waits for a cap or a cooldown.
// Others count it as a send at its instant. It ends with the event's next record.
type Reservation struct {
	EventID uuid.UUID
	Sent
	Made engine.Millis // decided_at of the event's record
}

// Move is a reservation that gave its place to an event of the urgent class.
type Move struct {
	EventID uuid.UUID     `json:"event_id"`
	At      engine.Millis `json:"at"` // its next place
}

// reserved returns the index of an event's reservation, -1 without one.
func (s *State) reserved(event uuid.UUID) int {
	for i := range s.Reserved {
		if s.Reserved[i].EventID == event {
			return i
		}
	}
	return -1
}

// Keeps reports whether a slot is kept for an event.
func (s *State) Keeps(event uuid.UUID) bool { return s.reserved(event) >= 0 }

// reserve takes in what a record says of reservations.
func (s *State) reserve(r *Record) {
	s.unreserve(r.EventID)
	for _, m := range r.Facts.Moved {
		if held := s.unreserve(m.EventID); held.EventID != uuid.Nil {
			held.At = m.At
			s.insert(held)
		}
	}
	if r.Outcome == Later && r.Facts.Reserved {
		kept := Reservation{EventID: r.EventID, Sent: r.Facts.Sent, Made: r.DecidedAt}
		kept.At, kept.Type, kept.Source, kept.Follow = r.DeferUntil, r.Type, SourceHash(r.Source), r.Facts.Step > 0
		s.insert(kept)
	}
}

// unreserve gives an event's slot back, and returns what was reserved.
func (s *State) unreserve(event uuid.UUID) (held Reservation) {
	if i := s.reserved(event); i >= 0 {
		held = s.Reserved[i]
		s.Reserved = slices.Delete(s.Reserved, i, i+1)
	}
	return held
}

// insert keeps the reservations in the order of their instants.
func (s *State) insert(r Reservation) { s.Reserved = insertReservation(s.Reserved, r) }

// slots are the instants that caps and cooldowns count.
type slots struct {
	taken    []engine.Millis // sends and reservations, ascending
	reserved []Reservation   // those that count, ascending
}

// slotsOf returns the slots of a state with those of the reservations that count.
func slotsOf(s *State, counts func(*Reservation) bool) (all slots) {
	for i := range s.Reserved {
		if counts(&s.Reserved[i]) {
			all.reserved = append(all.reserved, s.Reserved[i])
		}
	}
	if all.taken = s.Sends; len(all.reserved) > 0 {
		all.taken = s.totals(all.reserved)
	}
	return all
}

// totals returns the instants that caps count: of the sends, and of some reservations.
func (s *State) totals(reserved []Reservation) []engine.Millis {
	taken := make([]engine.Millis, 0, len(s.Sends)+len(reserved)+1)
	taken = append(taken, s.Sends...)
	for i := range reserved {
		if !reserved[i].Follow {
			taken = insertInstant(taken, reserved[i].At)
		}
	}
	return taken
}

func insertInstant(instants []engine.Millis, at engine.Millis) []engine.Millis {
	i := len(instants)
	for i > 0 && instants[i-1] > at {
		i--
	}
	return slices.Insert(instants, i, at)
}

// blocks reports whether the instants from i on, as many as a cap has, leave a window that
// holds them all no room for one more at an instant.
func (s *slots) blocks(i, limit int, window, at engine.Millis) bool {
	first, last := s.taken[i], s.taken[i+limit-1]
	return last-first < window && last-window < at && at < first+window
}

// within returns the first of the instants that can share a window with an instant.
func (s *slots) within(window, at engine.Millis) int {
	low, high := 0, len(s.taken)
	for low < high {
		if middle := int(uint(low+high) / 2); s.taken[middle] > at-window {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// until returns how many of the instants have come at an instant.
func (s *slots) until(at engine.Millis) int {
	n := len(s.taken)
	for n > 0 && s.taken[n-1] > at {
		n--
	}
	return n
}

// free returns the least instant from at on at which a cap has room: one more there fills
// neither the window that ends with it nor one of a later reservation. A cap of 0 is no cap.
func (s *slots) free(limit int, window, at engine.Millis) engine.Millis {
	if limit <= 0 || limit > len(s.taken) {
		return at
	}
	// Of the windows whose instants have all come, the newest is full the longest.
	for i := max(0, s.until(at)-limit); i+limit <= len(s.taken); i++ {
		if s.blocks(i, limit, window, at) {
			at = s.taken[i] + window
		}
	}
	return at
}

// cooled returns the least instant from at on that is no cooldown away from a reservation
// of a type.
func (s *slots) cooled(t EventType, cooldown, at engine.Millis) engine.Millis {
	for i := range s.reserved {
		if r := &s.reserved[i]; r.Type == t && !r.Follow && r.At-cooldown < at && at < r.At+cooldown {
			at = r.At + cooldown
		}
	}
	return at
}

// look counts the sends, and the reservations that hold the event: not its own, none once
// the time of its own has come, and for the urgent class none of the bulk class.
func (d *decision) look() {
	if d.slots = (slots{taken: d.state.Sends}); len(d.state.Reserved) == 0 || d.own != nil && d.own.At <= d.now {
		return
	}
	urgent := d.event.Type.Urgent()
	d.slots = slotsOf(d.state, func(r *Reservation) bool {
		return r.EventID != d.event.ID && (!urgent || r.Type.Urgent())
	})
}

// keepsSlot is what follows where an event is held that has a reservation. Before the time
// of its reservation it waits for it, or for an instant that is free before. At its time,
// sends hold it: the ones that went out a little later than their own reservations move its
// time, without a turn. Any others have taken its slot, and the event is decided like one
// that comes, as it is where a rule defers it.
func (d *decision) keepsSlot() bool {
	if d.ruleWaits() {
		return false
	}
	before := d.own.At > d.now
	if !before && (d.holds.quiet || d.holds.snooze) {
		return false
	}
	until, settled := d.until(0)
	switch {
	case before && (!settled || until > d.own.At):
		until = d.own.At
	case !before && (!settled || until-d.now >= Windows[0]):
		return false
	}
	d.wait = wait{outcome: Postponed, until: until}
	return true
}

// reserves keeps the slot of a LATER that waits for a cap, a limit or a cooldown, or has
// the place of one that did. A state has room for as many reservations as it keeps instants
// of sends, less the sends of a day.
func (d *decision) reserves() {
	others := len(d.state.Reserved)
	if d.state.reserved(d.event.ID) >= 0 {
		others--
	}
	waits := d.holds.fatigue() || d.waitsForSlot
	if place := d.record.Facts.Takes; place != (Place{}) {
		waits = place.Reserved
	}
	if d.record.Facts.Reserved = waits && others+d.state.sentSince(d.now-Windows[2]) < MaxSends; d.record.Facts.Reserved {
		d.sent.Channels = SetOf(d.channelsAt(d.wait.until))
		d.record.Facts.Sent.Channels = d.sent.Channels
	}
}

// channelsAt returns the channels that are free at an instant. Where none is, all are kept: it
// is the place of one that it replaces.
func (d *decision) channelsAt(at engine.Millis) []Channel {
	if d.alike {
		return d.allowed
	}
	open, _ := d.openChannels(func(c Channel) bool {
		free, _, _ := d.channelFree(c, at)
		return free <= at
	})
	if len(open) == 0 {
		return d.allowed
	}
	return open
}

// takesPlaces gives an event of the urgent class the places of the bulk class that its send
// needs. Each reservation that has to move gets the next free instant.
func (d *decision) takesPlaces() {
	at := d.now
	switch r := d.record; {
	case !d.holds.capsApply && len(d.bounds) == 0 || !d.holds.limitsApply || !d.event.Type.Urgent() || len(d.state.Reserved) == 0:
		return
	case r.Outcome == Later && r.Facts.Reserved:
		at = r.DeferUntil
	case r.Outcome != Now || r.Reasons[0] == ReasonDeferLimit:
		return
	default:
		d.sent.Channels = SetOf(r.Channels)
	}
	kept := slotsOf(d.state, func(r *Reservation) bool { return r.EventID != d.event.ID }).reserved
	var moved []Reservation
	for {
		i := d.inTheWay(kept, at)
		if i < 0 {
			break
		}
		moved = append(moved, kept[i])
		kept = slices.Delete(kept, i, i+1)
	}
	if len(moved) == 0 {
		return
	}
	own := Reservation{EventID: d.event.ID, Sent: d.set.Policy.SentOf(d.event, nil)}
	own.At, own.Channels = at, d.sent.Channels
	kept = insertReservation(kept, own)
	for _, m := range moved {
		m.At = d.placeOf(kept, &m)
		kept = insertReservation(kept, m)
		d.record.Facts.Moved = append(d.record.Facts.Moved, Move{m.EventID, m.At})
	}
}

// insertReservation keeps reservations in the order of their instants.
func insertReservation(all []Reservation, r Reservation) []Reservation {
	i := len(all)
	for i > 0 && all[i-1].At > r.At {
		i--
	}
	return slices.Insert(all, i, r)
}

// inTheWay returns the index of the latest bulk reservation in the first full window, of
// the caps first, that has no room at an instant; -1: all have.
func (d *decision) inTheWay(kept []Reservation, at engine.Millis) int {
	if d.holds.capsApply {
		all := slots{taken: d.state.totals(kept)}
		for w, window := range Windows {
			if i := latestIn(&all, d.record.Facts.Caps[w], window, at, kept, func(s *Sent) bool { return !s.Follow }); i >= 0 {
				return i
			}
		}
	}
	for i := range d.bounds {
		l := d.bounds[i].Limit
		if !l.counts(&d.sent, d.sent.key(l)) {
			continue // its channels are held
		}
		b := d.state.boundBy(l, &d.sent, kept)
		if i := latestIn(&b.slots, l.Most, l.Within, at, kept, func(s *Sent) bool { return l.counts(s, b.key) }); i >= 0 {
			return i
		}
	}
	return -1
}

// latestIn returns the index of the latest bulk reservation that counts, in the first
// window that has no room at an instant; -1: there is none.
func latestIn(all *slots, limit int, window, at engine.Millis, kept []Reservation, counts func(*Sent) bool) int {
	if limit <= 0 {
		return -1
	}
	for i := all.within(window, at); i+limit <= len(all.taken); i++ {
		if !all.blocks(i, limit, window, at) {
			continue
		}
		first, last := all.taken[i], all.taken[i+limit-1]
		for j, r := range slices.Backward(kept) {
			if first <= r.At && r.At <= last && !r.Type.Urgent() && counts(&r.Sent) {
				return j
			}
		}
	}
	return -1
}

// placeOf returns the next instant for a reservation that moves, beside others.
func (d *decision) placeOf(kept []Reservation, m *Reservation) engine.Millis {
	p := &d.set.Policy
	policy, at := &p.Types[m.Type], max(m.At, d.now)
	all := slots{taken: d.state.totals(kept), reserved: kept}
	var bounds []bound
	for i := range p.Limits {
		if l := &p.Limits[i]; l.covers(p, &m.Sent) {
			bounds = append(bounds, d.state.boundBy(l, &m.Sent, kept))
		}
	}
	snoozed := d.snoozed(m.Type, m.Source)
	for range maxRounds {
		before := at
		for i, window := range Windows {
			if policy.Capped && !m.Follow {
				at = all.free(d.record.Facts.Caps[i], window, at)
			}
		}
		for i := range bounds {
			at = bounds[i].free(at)
		}
		if last := d.state.LastSend[m.Type]; last != 0 && !m.Follow {
			at = max(at, last+policy.Cooldown)
		}
		if !m.Follow {
			at = all.cooled(m.Type, policy.Cooldown, at)
		}
		if policy.Quiet {
			at = max(at, snoozed)
		}
		if policy.Quiet && len(d.prefs.Quiet) > 0 && m.Channels&p.Awake == 0 {
			at = d.prefs.Quiet.End(d.prefs.Zone, at)
		}
		if at == before {
			break
		}
	}
	return at
}

func (s *slots) insert(r Reservation) {
	s.taken, s.reserved = insertInstant(s.taken, r.At), insertReservation(s.reserved, r)
}
