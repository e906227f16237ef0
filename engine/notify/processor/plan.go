package processor

import (
	"log/slog"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// answer is what a plan says of one delivery.
type answer struct {
	records []int        // of change.Decided
	repeats notify.Known // the turn stands earlier in the plan: its key after the commit
}

// plan decides what every work's deliveries ask for. Nothing is written.
func (f *flush) plan() {
	f.askScores()
	for _, w := range f.works {
		f.planWork(w)
	}
}

// askScores asks for the taste terms of the turns that are still open, in one call. A
// flush asks once per event: a round that is repeated has its answers.
func (f *flush) askScores() {
	if f.ports.Scores == nil {
		return
	}
	var events []*notify.Notification
	for _, w := range f.works {
		for i := range w.deliveries {
			for _, item := range w.deliveries[i].items() {
				// A digest is sent without a score.
				if _, asked := f.scores[item.Event]; !asked && item.DigestKey == "" && !w.decidedBefore(&item) {
					events = append(events, item.Event)
				}
			}
		}
	}
	if len(events) == 0 {
		return
	}
	if f.scores == nil {
		f.scores = make(map[*notify.Notification]notify.Score, len(events))
	}
	for i, score := range f.ports.Scores.Score(f.ctx, &f.set.Policy, events) {
		f.scores[events[i]] = score
	}
}

// planWork decides one user's deliveries on a copy of the user's state.
func (f *flush) planWork(w *work) {
	w.version, w.state = w.standing.Version, notify.State{}
	if w.standing.State != nil {
		w.state = *w.standing.State.Clone()
	}
	w.change, w.would = notify.Change{User: w.user, Version: w.standing.Version}, nil
	w.answers = make([]answer, len(w.deliveries))
	p := planner{flush: f, work: w, planned: map[uuid.UUID]int{}}
	if w.tracks {
		w.waiting = f.deferred(w)
	}
	for i := range w.deliveries {
		d := &w.deliveries[i]
		if f.config.Replay {
			p.decideWaiting(max(d.At, w.state.DecidedAt))
		}
		w.answers[i] = p.answer(d)
	}
	w.change.State = &w.state
}

// planner decides one user's turns, one after the other.
type planner struct {
	*flush
	work    *work
	planned map[uuid.UUID]int // the event's newest record in change.Decided
}

// answer decides the turns of a delivery that are not decided yet.
func (p *planner) answer(d *Delivery) (a answer) {
	if d.Cancel != nil {
		return p.cancel(d.Cancel, d.At)
	}
	var open []notify.Due
	for _, item := range d.items() {
		if p.work.decidedBefore(&item) {
			continue
		}
		if i, ok := p.planned[item.Event.ID]; ok {
			if r := &p.work.change.Decided[i].Record; r.Outcome != notify.Later || r.Turn >= item.Turn.Number {
				a.repeats = keyOf(r)
				continue
			}
		}
		open = append(open, item)
	}
	if len(open) > 0 {
		a.records = p.decide(open, d.At)
	}
	return a
}

// decide decides one turn, or the items of one digest, and folds the records. It
// returns their indexes in the change.
func (p *planner) decide(items []notify.Due, at engine.Millis) (records []int) {
	w := p.work
	now := max(at, w.state.DecidedAt)
	sortItems(items) // as the records of a digest come
	for i := range items {
		e := items[i].Event
		e.Print = p.set.Policy.Print(e)
	}
	if items[0].Event.Replaces.Any() && items[0].Turn.Number == 0 {
		records = p.replace(&items[0], now)
	}
	p.tellReports(items)
	would := p.shadowed(items, now)
	for i, r := range p.records(p.set, items, now) {
		if r.Outcome == notify.Postponed {
			p.postpone(items[i], r.DeferUntil)
			continue
		}
		var second *notify.Record
		if would != nil {
			second = &would[i]
		}
		records = append(records, p.add(r, items[i].Event, second))
	}
	return records
}

// add takes a record into the change, and returns its index there. would is the record by
// the candidate; nil: there is none.
func (p *planner) add(r notify.Record, event *notify.Notification, would *notify.Record) int {
	w := p.work
	w.version++
	r.Seq, r.DecisionID = w.version, newDecisionID(r.DecidedAt)
	w.state.Fold(&r)
	if p.set.Shadow != nil && p.ports.Shadows != nil {
		if would == nil {
			would = &r // what no set decides
		}
		w.would = append(w.would, *would)
	}
	at := len(w.change.Decided)
	p.planned[r.EventID] = at
	w.change.Decided = append(w.change.Decided, notify.Decided{Record: r, Event: event})
	w.change.Postponed = slices.DeleteFunc(w.change.Postponed, func(o notify.Postponement) bool { return o.EventID == r.EventID })
	if w.tracks {
		ended := func(d notify.Due) bool { return d.Event.ID == r.EventID }
		w.waiting, w.change.FollowUps = slices.DeleteFunc(w.waiting, ended), slices.DeleteFunc(w.change.FollowUps, ended)
	}
	if r.Outcome == notify.Later {
		p.waits(notify.Due{
			Event: event, Turn: notify.Turn{Number: r.Turn + 1, Spent: r.Spent},
			DueAt: r.DeferUntil, DigestKey: r.DigestKey, Slot: r.Slot,
		})
	}
	for i := range r.Facts.FollowUps {
		due, err := event.FollowUp(&r.Facts.FollowUps[i])
		if err != nil { // a body that was parsed
			p.ports.Log.Error("a follow-up could not be made", slog.String("event_id", event.ID.String()), slog.Any("error", err),
				slog.String("hint", "report it with the event's text"))
			continue
		}
		w.change.FollowUps = append(w.change.FollowUps, due)
		p.waits(due)
	}
	return at
}

// waits keeps a deferral that the change makes.
func (p *planner) waits(due notify.Due) {
	if p.work.tracks {
		p.work.waiting = append(p.work.waiting, due)
	}
}

// records decides by a set, and changes nothing.
func (p *planner) records(set *notify.Set, items []notify.Due, now engine.Millis) []notify.Record {
	w := p.work
	if items[0].DigestKey == "" {
		item := &items[0]
		turn := item.Turn
		turn.Due = item.DueAt
		return []notify.Record{notify.Decide(set, &w.standing.Preferences, &w.state, item.Event, turn, p.scoreOf(item.Event, now), now)}
	}
	scores := make([]notify.Score, len(items))
	for i := range items {
		scores[i] = p.scoreOf(items[i].Event, now)
		// Quiet hours may have moved the digest, which is another one then: what of it
		// went out before has its own id.
		items[i].Slot = items[i].DueAt
	}
	return notify.DecideDigest(set, &w.standing.Preferences, &w.state, items, scores, now)
}

// scoreOf returns what was read before a decision.
func (p *planner) scoreOf(e *notify.Notification, now engine.Millis) notify.Score {
	score := p.scores[e]
	score.Habit = p.work.standing.Responses.Of(e.Type, now)
	return score
}

// shadowed decides by the candidate, from the same state; nil: there is none.
func (p *planner) shadowed(items []notify.Due, now engine.Millis) []notify.Record {
	candidate := p.set.Shadow
	if candidate == nil || p.ports.Shadows == nil {
		return nil
	}
	prints := func(of *notify.Set) {
		for i := range items {
			items[i].Event.Print = of.Policy.Print(items[i].Event)
		}
	}
	if !slices.Equal(candidate.Policy.Identity, p.set.Policy.Identity) {
		prints(candidate)
		defer prints(p.set)
	}
	return p.records(candidate, items, now)
}

// postpone moves a deferral's time.
func (p *planner) postpone(item notify.Due, until engine.Millis) {
	w := p.work
	w.change.Postponed = slices.DeleteFunc(w.change.Postponed, func(o notify.Postponement) bool { return o.EventID == item.Event.ID })
	w.change.Postponed = append(w.change.Postponed, notify.Postponement{EventID: item.Event.ID, DueAt: until})
	if w.tracks {
		w.waiting = slices.DeleteFunc(w.waiting, func(d notify.Due) bool { return d.Event.ID == item.Event.ID })
		item.DueAt = until
		w.waiting = append(w.waiting, item)
	}
}

// keyOf is the key that a record leaves behind.
func keyOf(r *notify.Record) notify.Known {
	return notify.Known{
		EventID: r.EventID, User: r.UserID, DecisionID: r.DecisionID, Turn: r.Turn,
		Outcome: r.Outcome, DecidedAt: r.DecidedAt, DigestID: r.DigestID,
	}
}

// newDecisionID returns an id that was never given: ids sort by decided_at.
func newDecisionID(at engine.Millis) uuid.UUID {
	random := uuid.New()
	return notify.NewDecisionID(at, [10]byte(random[:10]))
}
