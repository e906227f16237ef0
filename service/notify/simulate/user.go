package simulate

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// turn is one decision of one event.
type turn struct {
	event  uuid.UUID
	number int
}

func turnOf(r *notify.Record) turn { return turn{r.EventID, r.Turn} }

// waiting is a deferral of the candidate.
type waiting struct {
	notify.Due
	// aligned: it is the recorded one, moved to the same time, so that its next turn has the
	// recorded time.
	aligned bool
}

// user is one user under a candidate.
type user struct {
	set      *notify.Set
	from     engine.Millis    // what was decided before is taken as it is
	recorded []notify.Decided // in the order of Seq
	at       map[turn]int     // of recorded
	state    notify.State
	waiting  []waiting
	met      map[uuid.UUID]bool          // events with a turn in what was read
	takes    map[uuid.UUID]*notify.Place // by the event that replaces others
	made     []notify.Record
	differs  bool // some decision is not the recorded one
	madeAt   map[turn]int
}

func newUser(set *notify.Set, from engine.Millis, recorded []notify.Decided) *user {
	u := &user{set: set, from: from, recorded: recorded, at: map[turn]int{}, met: map[uuid.UUID]bool{}, madeAt: map[turn]int{}, takes: map[uuid.UUID]*notify.Place{}}
	for i := range recorded {
		u.at[turnOf(&recorded[i].Record)] = i
		if e := recorded[i].Event; e != nil {
			event := *e // a ledger in memory has no copy of its own
			event.Print = set.Policy.Print(&event)
			recorded[i].Event = &event
		}
	}
	return u
}

// replay decides what was recorded from u.from on. Earlier records come to the state and the
// deferrals with which it begins.
func (u *user) replay(until engine.Millis) {
	for i := 0; i < len(u.recorded); {
		d := &u.recorded[i]
		if d.Record.DecidedAt < u.from || d.Event == nil {
			u.begin(d)
			i++
			continue
		}
		// What comes before may make the deferral that this turn ends, or move it.
		u.advance(d.Record.DecidedAt-1, nil)
		u.advance(d.Record.DecidedAt, u.find(&d.Record))
		switch {
		case ends(&d.Record):
			u.end(d)
			i++
		case u.find(&d.Record) != nil:
			items, n := u.take(i)
			u.decide(items, d.Record.DecidedAt)
			i += n
		case u.arrives(&d.Record):
			u.decide([]waiting{arrival(d)}, d.Record.DecidedAt)
			i++
		default: // the candidate has ended the event, or decides it at another time
			i++
		}
	}
	u.advance(until, nil)
}

// find returns the deferral whose next turn a record is.
func (u *user) find(r *notify.Record) *waiting {
	for i := range u.waiting {
		if w := &u.waiting[i]; w.aligned && w.Event.ID == r.EventID && w.Turn.Number == r.Turn {
			return w
		}
	}
	return nil
}

// begin takes a record as it is.
func (u *user) begin(d *notify.Decided) {
	r := &d.Record
	u.state.Fold(r)
	u.met[r.EventID] = true
	u.waiting = slices.DeleteFunc(u.waiting, func(w waiting) bool { return w.Event.ID == r.EventID })
	if r.Outcome == notify.Later && d.Event != nil {
		next := nextOf(d.Event, r)
		u.waiting = append(u.waiting, waiting{next, u.asRecorded(&next)})
	}
	u.follow(d.Event, r, r)
}

// follow takes in the follow-ups of a decision. was is the recorded one; nil: there is none.
func (u *user) follow(e *notify.Notification, r, was *notify.Record) {
	for i := range r.Facts.FollowUps {
		f := &r.Facts.FollowUps[i]
		if e == nil {
			return
		}
		due, err := e.FollowUp(f)
		if err != nil {
			continue // a stored text that is damaged
		}
		due.Event.Print = e.Print
		recorded := was != nil && slices.ContainsFunc(was.Facts.FollowUps, func(o notify.FollowUp) bool {
			return o.EventID == f.EventID && o.At == f.At && o.Digest == f.Digest
		})
		u.waiting = append(u.waiting, waiting{due, recorded && u.asRecorded(&due)})
	}
}

// arrives reports whether a record is of an event that comes, or whose earlier turns are
// older than what was read.
func (u *user) arrives(r *notify.Record) bool {
	if r.Facts.Step > 0 {
		return !u.met[r.EventID] && !u.met[r.Facts.Root]
	}
	return r.Turn == 0 || !u.met[r.EventID]
}

func nextOf(e *notify.Notification, r *notify.Record) notify.Due {
	return notify.Due{
		Event: e, Turn: notify.Turn{Number: r.Turn + 1, Spent: r.Spent},
		DueAt: r.DeferUntil, DigestKey: r.DigestKey, Slot: r.Slot,
	}
}

// arrival is a first turn, or a later one whose deferral is older than what was read.
func arrival(d *notify.Decided) waiting {
	r := &d.Record
	item := waiting{Due: notify.Due{Event: d.Event, Turn: notify.Turn{Number: r.Turn, Spent: r.Spent}, DueAt: r.DecidedAt}}
	if n := len(r.Spent); r.Outcome == notify.Later && n > 0 && r.Spent[n-1] == r.RuleID {
		item.Turn.Spent = r.Spent[:n-1]
	}
	if r.DigestID != uuid.Nil {
		item.DigestKey, item.Slot = r.DigestID.String(), r.DecidedAt
	}
	return item
}

// advance decides the candidate's own deferrals that are due at or before an instant, each
// at its time. Of those that are due at the instant itself, the ones after next in the order
// of decisions wait for it.
func (u *user) advance(until engine.Millis, next *waiting) {
	var before *notify.Notification
	if next != nil && next.DueAt == until {
		before = next.Event
	}
	for {
		first := -1
		for i := range u.waiting {
			w := &u.waiting[i]
			if !w.aligned && w.DueAt <= until && (first < 0 || compare(w, &u.waiting[first]) < 0) && !u.joins(w) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		w := u.waiting[first]
		if before != nil && w.DueAt == until && notify.CompareEvents(before, w.Event) < 0 {
			return
		}
		items := u.remove(func(o *waiting) bool { return o.Event.ID == w.Event.ID || !o.aligned && sameDigest(o, &w) })
		u.decide(items, max(w.DueAt, u.state.DecidedAt))
	}
}

func compare(a, b *waiting) int {
	return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), notify.CompareEvents(a.Event, b.Event))
}

func sameDigest(a, b *waiting) bool {
	return a.DigestKey != "" && a.DigestKey == b.DigestKey && a.DueAt == b.DueAt
}

// joins reports whether a deferral goes out in a digest whose time is recorded.
func (u *user) joins(w *waiting) bool {
	return slices.ContainsFunc(u.waiting, func(o waiting) bool {
		if !o.aligned || !sameDigest(&o, w) {
			return false
		}
		_, recorded := u.at[turn{o.Event.ID, o.Turn.Number}]
		return recorded
	})
}

// take takes what is decided together with a recorded turn out of those that wait: the
// turn alone, or its digest. n is how many records that are.
func (u *user) take(i int) (items []waiting, n int) {
	r := &u.recorded[i].Record
	first := *u.find(r)
	wanted, digest := map[uuid.UUID]bool{}, uuid.Nil
	for _, d := range u.recorded[i:] {
		item := u.find(&d.Record)
		other := digest != uuid.Nil && d.Record.DigestID != uuid.Nil && d.Record.DigestID != digest
		if n > 0 && (item == nil || first.DigestKey == "" || item.DigestKey != first.DigestKey ||
			d.Record.DecidedAt != r.DecidedAt || other || wanted[d.Record.EventID]) {
			break
		}
		if d.Record.DigestID != uuid.Nil {
			digest = d.Record.DigestID
		}
		wanted[d.Record.EventID] = true
		n++
	}
	return u.remove(func(o *waiting) bool { return wanted[o.Event.ID] || !o.aligned && sameDigest(o, &first) }), n
}

func (u *user) remove(which func(*waiting) bool) (removed []waiting) {
	u.waiting = slices.DeleteFunc(u.waiting, func(w waiting) bool {
		if which(&w) {
			removed = append(removed, w)
			return true
		}
		return false
	})
	return removed
}

// decide decides one turn, or the items of one digest.
func (u *user) decide(items []waiting, now engine.Millis) {
	slices.SortStableFunc(items, func(a, b waiting) int { return notify.CompareEvents(a.Event, b.Event) })
	for i, r := range u.records(items, now) {
		item := &items[i]
		u.met[r.EventID] = true
		if r.Outcome == notify.Postponed {
			item.DueAt = r.DeferUntil
			item.aligned = item.DigestKey == "" && u.record(turn{r.EventID, r.Turn}) != nil && u.asRecorded(&item.Due)
			u.waiting = append(u.waiting, *item)
			continue
		}
		u.add(item, r)
	}
}

// add takes in a decision.
func (u *user) add(item *waiting, r notify.Record) {
	u.met[r.EventID] = true
	u.state.Fold(&r)
	u.madeAt[turnOf(&r)] = len(u.made)
	u.made = append(u.made, r)
	u.compare(&r)
	was := u.record(turnOf(&r))
	if r.Outcome == notify.Later {
		next := nextOf(item.Event, &r)
		u.waiting = append(u.waiting, waiting{next, was != nil && sameDeferral(was, &r) && u.asRecorded(&next)})
	}
	u.follow(item.Event, &r, was)
}

// compare looks whether a decision is the recorded one. From the first that is not, deferrals
// that were moved without a record are moved by the candidate.
func (u *user) compare(r *notify.Record) {
	was := u.record(turnOf(r))
	if u.differs || was != nil && was.DecidedAt == r.DecidedAt && sameDeferral(was, r) && slices.Equal(was.Facts.Moved, r.Facts.Moved) {
		return
	}
	u.differs = true
	for i := range u.waiting {
		w := &u.waiting[i]
		w.aligned = w.aligned && u.asRecorded(&w.Due)
	}
}

// asRecorded reports whether the recorded next turn of an event was due when a deferral is.
// While nothing differs it was. Older records do not tell, and digests are decided with
// their recorded items.
func (u *user) asRecorded(next *notify.Due) bool {
	if !u.differs {
		return true
	}
	r := u.record(turn{next.Event.ID, next.Turn.Number})
	return r == nil || next.DigestKey != "" || r.Facts.Due == 0 || r.Facts.Due == next.DueAt
}

func sameDeferral(a, b *notify.Record) bool {
	return a.Outcome == b.Outcome && a.DeferUntil == b.DeferUntil && a.DigestKey == b.DigestKey && a.Slot == b.Slot
}

func (u *user) records(items []waiting, now engine.Millis) []notify.Record {
	facts := make([]*notify.Facts, len(items))
	scores := make([]notify.Score, len(items))
	for i := range items {
		facts[i], scores[i] = u.facts(&items[i])
	}
	prefs := facts[0].Preferences
	if items[0].DigestKey == "" {
		turn := items[0].Turn
		turn.Due, turn.Reported = items[0].DueAt, facts[0].Reported
		if items[0].Event.Replaces.Any() && turn.Number == 0 {
			turn.Takes = u.replace(items[0].Event, now, &prefs)
		}
		return []notify.Record{notify.Decide(u.set, &prefs, &u.state, items[0].Event, turn, scores[0], now)}
	}
	due := make([]notify.Due, len(items))
	for i := range items {
		due[i] = items[i].Due
		due[i].Slot = due[i].DueAt // quiet hours may have moved it
		due[i].Turn.Reported = facts[i].Reported
		// Where the zones differ, they are those of the events.
		if zone := facts[i].Preferences.Zone; prefs.Zone != nil && (zone == nil || zone.Name() != prefs.Zone.Name()) {
			prefs.Zone = nil
		}
	}
	return notify.DecideDigest(u.set, &prefs, &u.state, due, scores, now)
}

// record returns a recorded turn, nil where there is none.
func (u *user) record(t turn) *notify.Record {
	if i, ok := u.at[t]; ok {
		return &u.recorded[i].Record
	}
	return nil
}

var noFacts notify.Facts

// facts returns what was recorded of a turn, or of the newest one before it. The cosine of
// an event that went out in a digest was not asked for then: it is that of an earlier turn.
func (u *user) facts(w *waiting) (found *notify.Facts, score notify.Score) {
	for number := w.Turn.Number; number >= 0; number-- {
		r := u.record(turn{w.Event.ID, number})
		if r == nil {
			continue
		}
		if found == nil {
			found = &r.Facts
		}
		score = r.Facts.Taste
		if before := u.record(turn{w.Event.ID, number - 1}); before == nil || before.DigestKey == "" {
			break
		}
	}
	if f := w.Event.Follows; found == nil && f != nil { // the candidate alone has it
		for number := notify.MaxTurn; number >= 0 && found == nil; number-- {
			if r := u.record(turn{f.Root, number}); r != nil {
				found = &notify.Facts{Preferences: r.Facts.Preferences}
			}
		}
	}
	if found == nil {
		found = &noFacts
	}
	return found, score
}
