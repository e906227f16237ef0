package notify

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
)

// line is a user whose events are decided as a worker does, late after their time.
type line struct {
	*scene
	t       *testing.T
	late    engine.Millis // how long after its time a deferral is decided at most
	decided engine.Millis // how many deferrals were
	waiting []Due
	records []Record
	moves   int // of deferrals, without a turn
}

func newLine(t *testing.T) *line {
	return &line{scene: newScene(), t: t}
}

// arrive decides a new event of a type.
func (l *line) arrive(n int, kind EventType, at engine.Millis) Record {
	l.until(at)
	e := *l.event
	e.ID, e.Type, e.Timestamp, e.Title = idOf(n), kind, at, fmt.Sprintf("Order %d shipped", 1000+n)
	return l.turnOf(Due{Event: &e}, at)
}

func (l *line) turnOf(d Due, at engine.Millis) Record {
	d.Event.Print = l.set.Policy.Print(d.Event)
	r := Decide(l.set, &l.prefs, l.state, d.Event, d.Turn, l.score, at)
	if r.Outcome == Postponed {
		l.moves++
		d.DueAt = r.DeferUntil
		l.waiting = append(l.waiting, d)
		return r
	}
	l.state.Fold(&r)
	l.records = append(l.records, r)
	if r.Outcome == Later {
		l.waiting = append(l.waiting, Due{Event: d.Event, Turn: Turn{Number: r.Turn + 1, Spent: r.Spent}, DueAt: r.DeferUntil})
	}
	if read, err := ReadState(l.state.Append(nil)); err != nil || !sameState(read, l.state) {
		l.t.Fatalf("%v: read %+v, wrote %+v", err, read.Reserved, l.state.Reserved)
	}
	return r
}

// until decides what is due until an instant.
func (l *line) until(at engine.Millis) {
	for {
		slices.SortStableFunc(l.waiting, func(a, b Due) int { return cmp.Compare(a.DueAt, b.DueAt) })
		late := l.late * (l.decided * 7 % 5) / 4
		if len(l.waiting) == 0 || l.waiting[0].DueAt+late > at {
			return
		}
		d := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.decided++
		l.turnOf(d, d.DueAt+late)
	}
}

// finish decides what waits, checks that no slot is left, and folds the records again.
func (l *line) finish() {
	l.t.Helper()
	l.until(1 << 60)
	if len(l.state.Reserved) > 0 {
		l.t.Errorf("%d reservations are left", len(l.state.Reserved))
	}
	var folded State
	for i := range l.records {
		folded.Fold(&l.records[i])
	}
	if !sameState(&folded, l.state) {
		l.t.Errorf("folded %+v, stored %+v", folded.Reserved, l.state.Reserved)
	}
}

// ends counts the records by outcome and first reason.
func (l *line) ends() map[string]int {
	all := map[string]int{}
	for _, r := range l.records {
		all[fmt.Sprint(r.Outcome, " ", r.Reasons[0])]++
	}
	return all
}

// A burst of 40 waits for 37 slots or more, none of them twice, and is sent in full, each
// within two turns, though each is decided a little late.
//
// Promise(acceptance/own-slots): Of all that wait for a cap or a pause each has its own slot; 40
// urgent ones in 10 minutes are sent, none over a cap, within two turns.
func TestABurstGetsASlotEach(t *testing.T) {
	for _, kind := range []EventType{Message, Update} {
		for _, late := range []engine.Millis{0, 17, 1500} {
			l := newLine(t)
			l.late = late
			for n := range 40 {
				l.arrive(n+1, kind, testNow+engine.Millis(n)*15*second)
			}
			l.finish()
			limits, sent, slots := 0, 0, map[engine.Millis]int{}
			for _, r := range l.records {
				if contains(r.Reasons, ReasonDeferLimit) {
					limits++
				}
				if r.Outcome == Now {
					sent++
				}
				if r.Outcome == Later {
					slots[r.DeferUntil]++
				}
				if r.Turn > 1 {
					t.Errorf("%v of %v, %d ms late: turn %d", r.Outcome, kind, late, r.Turn)
				}
			}
			t.Logf("40 %vs in 10 minutes, decided up to %d ms late: %v, %d slots, %d moved without a turn", kind, late, l.ends(), len(slots), l.moves)
			if limits > 0 || sent != 40 {
				t.Errorf("%d DEFER_LIMIT, %d sent", limits, sent)
			}
			if kind == Update && len(slots) != 39 || len(slots) < 15 || (l.moves > 0) != (late > 0) {
				t.Errorf("%d slots, %d moved without a turn", len(slots), l.moves)
			}
		}
	}
}

// The k-th that waits gets the k-th free slot.
//
// Promise(acceptance/own-slots)
func TestTheKthGetsTheKthSlot(t *testing.T) {
	l := newLine(t)
	for i, want := range []engine.Millis{
		0, 0, 0, 5 * minute, 5 * minute, 5 * minute,
		hour, hour, hour, hour + 5*minute,
	} {
		r := l.arrive(i+1, Message, testNow)
		if got := goes(&r) - testNow; got != want {
			t.Errorf("number %d waits for %d, want %d", i+1, got, want)
		}
		if r.Facts.Reserved != (want > 0) || r.Facts.Waiting != max(0, i-3) {
			t.Errorf("number %d: reserved %v, behind %d", i+1, r.Facts.Reserved, r.Facts.Waiting)
		}
	}
	l.finish()
}

// A slot is given back by what ends otherwise, and the next one gets it.
//
// Promise(acceptance/own-slots)
func TestASlotIsGivenBack(t *testing.T) {
	l := newLine(t)
	for n := range 4 {
		l.arrive(n+1, Message, testNow)
	}
	// The fourth is decided before its time: a rule sends it.
	d := l.waiting[0]
	l.waiting = nil
	l.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Forced})
	if r := l.turnOf(d, testNow+1); r.Outcome != Now || len(l.state.Reserved) != 0 {
		t.Fatalf("%s %v, reserved %+v", r.Outcome, r.Reasons, l.state.Reserved)
	}
	l.set.Rules = nil
	if r := l.arrive(9, Message, testNow+2); r.DeferUntil != testNow+5*minute {
		t.Errorf("the next one waits until %d", r.DeferUntil-testNow)
	}
	// Muted, it ends at its time and leaves nothing.
	l.prefs.Muted = []EventType{Message}
	l.finish()
}

// What has no free instant before it expires is NEVER at once, with the cap's reason, and
// reserves nothing.
//
// Promise(acceptance/own-slots)
func TestNoSlotBeforeTheExpiry(t *testing.T) {
	l := newLine(t)
	for n := range 6 {
		l.arrive(n+1, Message, testNow)
	}
	l.event.ExpiresAt = testNow + hour
	r := l.arrive(7, Message, testNow+1)
	if r.Outcome != Never || !slices.Equal(r.Reasons, []string{ReasonExpiresFirst, ReasonCap5M, ReasonCap1H}) || len(l.state.Reserved) != 3 {
		t.Errorf("%s %v, %d reservations", r.Outcome, r.Reasons, len(l.state.Reserved))
	}
}

// The urgent class takes a bulk reservation's place; its owner gets the next one and keeps
// its turn.
//
// Promise(acceptance/own-slots)
func TestUrgentTakesABulkPlace(t *testing.T) {
	l := newLine(t)
	for n := range 20 { // 20 fill the day: the first now, one in each half hour
		l.arrive(n+1, Update, testNow+engine.Millis(n))
	}
	last := l.state.Reserved[len(l.state.Reserved)-1]
	r := l.arrive(30, Message, testNow+minute)
	if r.Outcome != Now || len(r.Facts.Moved) != 1 || r.Facts.Moved[0].EventID != last.EventID || r.Facts.Moved[0].At != testNow+day {
		t.Fatalf("%s %v, moved %+v", r.Outcome, r.Reasons, r.Facts.Moved)
	}
	if r := l.arrive(31, Promo, testNow+minute); r.Outcome != Later || r.DeferUntil <= testNow+day {
		t.Errorf("a PROMO, which is not urgent: %s %v until %d", r.Outcome, r.Reasons, r.DeferUntil-testNow)
	}
	l.finish()
	for _, r := range l.records {
		if r.EventID == last.EventID && r.Outcome == Now && (r.Turn != 1 || r.DecidedAt != testNow+day) {
			t.Errorf("the owner was sent by turn %d at %d", r.Turn, r.DecidedAt-testNow)
		}
	}
	if l.moves == 0 {
		t.Error("the owner did not wait for its new place")
	}
}

// What takes slots without a reservation costs a turn: a forced send.
func TestAForcedSendCostsATurn(t *testing.T) {
	l := newLine(t)
	l.set.Policy.Caps = Caps{250, 2, 250}
	for n := range 3 {
		l.arrive(n+1, Message, testNow)
	}
	l.arrive(8, Security, testNow+50*minute)
	l.arrive(9, Security, testNow+50*minute)
	l.until(testNow + hour)
	last := l.records[len(l.records)-1]
	if last.EventID != idOf(3) || last.Outcome != Later || last.Turn != 1 || last.DeferUntil != testNow+110*minute {
		t.Errorf("%s %v, turn %d until %d", last.Outcome, last.Reasons, last.Turn, last.DeferUntil-testNow)
	}
	l.finish()
}

// A state keeps at most 256 instants of sends and reservations; more wait without one.
//
// Promise(acceptance/own-slots)
func TestReservationsAreBounded(t *testing.T) {
	l := newLine(t)
	for n := range 300 {
		l.arrive(n+1, Message, testNow)
	}
	if n := len(l.state.Sends) + len(l.state.Reserved); n != MaxSends {
		t.Errorf("%d instants", n)
	}
	if last := l.records[len(l.records)-1]; last.Outcome != Later || last.Facts.Reserved {
		t.Errorf("the last: %s, reserved %v", last.Outcome, last.Facts.Reserved)
	}
	l.finish()
}

// States of version 1 have no reservations, those of version 2 nothing that limits count:
// both are read.
//
// Promise(acceptance/own-slots)
func TestOldStatesAreRead(t *testing.T) {
	s := &State{DecidedAt: testNow, Sends: []engine.Millis{testNow}, LastDigest: idOf(3)}
	b := s.Append(nil)
	for version := byte(2); version > 0; version-- {
		b = b[:len(b)-1]
		b[0] = version
		if read, err := ReadState(b); err != nil || !reflect.DeepEqual(read, s) {
			t.Errorf("version %d: %v: %+v", version, err, read)
		}
	}
}

// The spread after quiet hours and mornings ends neither in quiet hours nor behind the
// next ones.
//
// Promise(acceptance/spread): What waits for a morning or for quiet hours to end is not spread into
// the next ones.
func TestTheSpreadStaysBetweenQuietHours(t *testing.T) {
	for _, strategy := range []Strategy{0, NextMorning} {
		met := map[engine.Millis]bool{}
		for n := range 66 {
			s := newScene()
			s.now = at("2026-03-10T22:30:00Z")
			s.prefs.Quiet = quiet.Hours{{From: 22 * 60, To: 8 * 60}, {From: 8*60 + 4, To: 9 * 60}}
			if strategy != 0 {
				s.prefs.Quiet = s.prefs.Quiet[1:]
				s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: strategy})
			}
			s.event.ID = idOf(n + 1)
			r := s.decide()
			if morning := at("2026-03-11T07:00:00Z"); r.Outcome != Later || r.DeferUntil < morning || r.DeferUntil >= morning+4*minute {
				t.Errorf("%s %v until %v", r.Outcome, r.Reasons, r.DeferUntil.Time())
			}
			met[r.DeferUntil] = true
		}
		if len(met) < 60 {
			t.Errorf("66 wake up at %d instants", len(met))
		}
	}
}

// A turn that comes again is decided as if it had no slot: its record, and no postponement,
// finds the one that stands.
func TestATurnThatComesAgainHasNoSlot(t *testing.T) {
	l := newLine(t)
	for n := range 3 {
		l.arrive(n+1, Message, testNow)
	}
	if r := l.arrive(4, Message, testNow+1); r.Outcome != Later || !r.Facts.Reserved {
		t.Fatalf("%s, reserved %v", r.Outcome, r.Facts.Reserved)
	}
	e := l.waiting[0].Event
	for _, again := range []Turn{{}, {Number: 1, Due: testNow + 1}} {
		if r := Decide(l.set, &l.prefs, l.state, e, again, Score{}, testNow+2); r.Outcome != Later || r.DeferUntil != testNow+5*minute {
			t.Errorf("turn %d again: %s until %d", again.Number, r.Outcome, r.DeferUntil-testNow)
		}
	}
}
