// Package history makes random histories of users and decides each of them twice: by the
// laws of package notify, with the state through its codec after each decision, and by
// the oracle. A history follows from its number.
package history

import (
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/similar"
	"keyfold/proof/notifyoracle"
)

// World holds what histories are drawn from. It serves one goroutine.
type World struct {
	// Trace gets a line per decision; nil for none.
	Trace io.Writer
	// Seen counts the decisions by outcome and reason.
	Seen map[Case]int
	// Draw says what is drawn; it is set before the first history.
	Draw Draw

	rng        *rng
	oracle     *notifyoracle.Oracle
	places     []place
	metadatas  []metadata
	attributes []notify.Attributes
	prints     map[printKey]similar.Print
	block      uint64 // of the sets
	fresh      bool   // its histories have what [Draw.New] says
	sets       []sets
	buffer     []byte
}

// Case is what a decision said; each of its reasons is a case.
type Case struct {
	Outcome notify.Outcome
	Reason  string
}

// setsEvery is how many histories in a row share their sets: making sets takes longer
// than a history.
const setsEvery = 32

// New returns a world.
func New() (*World, error) {
	w := &World{Seen: map[Case]int{}, rng: newRNG(), oracle: notifyoracle.New(), prints: map[printKey]similar.Print{}, block: ^uint64(0)}
	var err error
	if w.places, err = places(); err != nil {
		return nil, err
	}
	if w.metadatas, err = metadatas(); err != nil {
		return nil, err
	}
	w.attributes, err = attributes()
	return w, err
}

// history is one user's history while it is made, or that of several ids some of which are
// merged.
type history struct {
	*World
	*person // whose turn it is
	people  []*person
	place   *place
	set     sets
	now     engine.Millis
	met     []said
	reports map[uuid.UUID][]report
	steps   int
	wide    bool
	flooded bool
	run     *notifyoracle.Run // what has happened, where the laws of runs are checked too
}

// person is one id on both sides.
type person struct {
	id      string
	user    *notifyoracle.User
	prefs   notify.Preferences
	state   *notify.State
	waiting []waiting
	records []notify.Record // where others can be merged
	into    *person         // whose alias it is; nil: it is none
}

func (w *World) newPerson(id string) *person {
	return &person{id: id, user: w.oracle.User(id), state: &notify.State{}}
}

// said is what an event said.
type said struct {
	kind     notify.EventType
	text     int
	metadata *metadata
}

// waiting is a deferral.
type waiting struct {
	notify.Due
	event notifyoracle.Event
}

// Run makes the history of a number and returns how many decisions were compared. The
// error names the first difference.
func (w *World) Run(number uint64) (decisions int, err error) {
	if err := w.drawSets(number); err != nil {
		return 0, fmt.Errorf("history %d: %w", number, err)
	}
	w.rng.seed(number, 2)
	w.oracle.Forget()
	h := &history{
		World: w, person: w.newPerson("u"), set: pick(w.rng, w.sets), place: &w.places[w.rng.IntN(len(w.places))],
		reports: map[uuid.UUID][]report{},
	}
	h.people = []*person{h.person}
	h.start()
	if number%setsEvery == 0 {
		h.run = h.newRun()
	}
	err = h.play(number)
	if err == nil && h.run != nil {
		err = h.checkRun()
	}
	if err != nil {
		return h.steps, fmt.Errorf("history %d, step %d: %w", number, h.steps, err)
	}
	return h.steps, nil
}

// drawSets draws the sets of a history, unless the one before had the same.
func (w *World) drawSets(number uint64) error {
	block := number / setsEvery
	if block == w.block {
		return nil
	}
	w.block, w.sets, w.fresh = ^uint64(0), w.sets[:0], w.Draw.New.has(block)
	w.rng.seed(block, 1)
	for i := range 2 {
		s, err := w.newSet(fmt.Sprintf("%d.%d", block, i))
		if err != nil {
			return err
		}
		w.sets = append(w.sets, s)
	}
	w.block = block
	return nil
}

// start sets the clock near an interesting night.
func (h *history) start() {
	g := h.rng
	if len(h.place.changes) > 0 && !g.chance(3) {
		h.now = pick(g, h.place.changes) - 12*hour + engine.Millis(g.Int64N(int64(14*hour)))
	} else {
		h.now = 1_577_836_800_000 + day*engine.Millis(g.IntN(40)*100) + engine.Millis(g.Int64N(int64(day)))
	}
	h.change()
}

func (h *history) play(number uint64) error {
	g := h.rng
	events := 4 + g.IntN(12)
	if number%512 == 511 {
		events = 500
		h.widen()
	}
	if number%1024 == 255 {
		events = 300
		h.widen()
		h.flood()
	}
	if h.fresh && number%4096 == 767 {
		events = 500
		h.widen()
		h.crowd()
	}
	if h.fresh {
		h.addPeople()
	}
	for range events {
		next := h.nextTime()
		if err := h.decideDue(next); err != nil {
			return err
		}
		h.now = next
		as := h.id
		if len(h.people) > 1 {
			var err error
			if as, err = h.meet(); err != nil {
				return err
			}
		}
		switch {
		case g.chance(20):
			h.change()
		case g.chance(15) && !h.wide:
			h.set = pick(g, h.sets)
		case g.chance(300) && !h.wide:
			h.state.Erased, h.user.Erased = true, true
		}
		e := h.newEvent(as)
		if g.chance(20) {
			h.now -= g.span(minute) // another worker's clock is behind
		}
		if err := h.decideNew(waiting{Due: notify.Due{Event: e.Notification}, event: e}); err != nil {
			return err
		}
		h.now = next
	}
	return h.decideDue(1 << 50)
}

// decideNew decides an event that comes.
func (h *history) decideNew(d waiting) error {
	if h.fresh && !h.wide {
		if h.rng.chance(12) {
			if err := h.cancel(); err != nil {
				return err
			}
		}
		h.replace(d.Event)
		if err := h.withdrawReplaced(&d); err != nil {
			return err
		}
	}
	return h.decide(d)
}

// decide decides one turn of an event on both sides.
func (h *history) decide(d waiting) error {
	score := notify.Score{Known: !h.rng.chance(3), Cosine: h.rng.Float64() - .3}
	if h.fresh {
		score.Habit = h.newHabit()
	}
	got := notify.Decide(h.set.theirs, &h.prefs, h.state, d.Event, d.Turn, score, h.now)
	want := h.user.Decide(h.set.ours, d.event, turnOf(d, score), h.now)
	return h.keep(d, &want, &got)
}

func turnOf(d waiting, score notify.Score) notifyoracle.Turn {
	return notifyoracle.Turn{Number: d.Turn.Number, Spent: d.Turn.Spent, Score: score, Reported: d.Turn.Reported, Takes: d.Turn.Takes}
}

// keep compares one decision and lets both sides go on from it.
func (h *history) keep(d waiting, want *notifyoracle.Decision, got *notify.Record) error {
	if err := h.compare(want, got); err != nil {
		return err
	}
	if err := h.fold(d, got); err != nil {
		return err
	}
	return h.compareState()
}

func (h *history) compare(want *notifyoracle.Decision, got *notify.Record) error {
	h.steps++
	for _, reason := range want.Reasons {
		h.Seen[Case{want.Outcome, reason}]++
	}
	if h.Trace != nil {
		fmt.Fprintf(h.Trace, "%4d %d %-8v turn %d %v want %v %v, got %v %v\n", h.steps, h.now, want.Type, want.Turn, want.EventID,
			want.Outcome, want.Reasons, got.Outcome, got.Reasons)
	}
	differences := notifyoracle.Compare(want, got)
	if got.Outcome != notify.Postponed && got.UserID != h.id {
		differences = append(differences, fmt.Sprintf("user_id: want %s, got %s", h.id, got.UserID))
	}
	if len(differences) > 0 {
		return fmt.Errorf("%v, turn %d\n  %s\nwant %+v\ngot  %+v", want.Type, want.Turn, strings.Join(differences, "\n  "), *want, *got)
	}
	return nil
}

// fold takes a record into the state and sends the state through its codec.
func (h *history) fold(d waiting, r *notify.Record) (err error) {
	h.state.Fold(r)
	h.buffer = h.state.Append(h.buffer[:0])
	if h.state, err = notify.ReadState(h.buffer); err != nil {
		return err
	}
	if h.run != nil {
		if err := h.record(r); err != nil {
			return err
		}
	}
	if len(h.people) > 1 && r.Outcome != notify.Postponed {
		h.records = append(h.records, *r)
	}
	for i := range r.Facts.FollowUps {
		if err := h.followUp(d, &r.Facts.FollowUps[i]); err != nil {
			return err
		}
	}
	switch r.Outcome {
	case notify.Now:
		if h.fresh {
			h.hear(r.EventID)
		}
	case notify.Later:
		d.Turn = notify.Turn{Number: r.Turn + 1, Spent: r.Spent}
		d.DueAt, d.DigestKey, d.Slot = r.DeferUntil, r.DigestKey, r.Slot
		h.waiting = append(h.waiting, d)
	case notify.Postponed:
		d.DueAt, d.DigestKey, d.Slot = r.DeferUntil, r.DigestKey, r.Slot
		h.waiting = append(h.waiting, d)
	}
	return nil
}

func (h *history) compareState() error {
	if differences := h.user.CompareState(h.state); len(differences) > 0 {
		return fmt.Errorf("%s", strings.Join(differences, "\n  "))
	}
	return nil
}
