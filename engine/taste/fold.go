package taste

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"keyfold/engine"
)

// screen settles what needs no folding: everything of an erased user,
// duplicates, and ids that can no longer be proven new.
func (f *flush) screen(w *work) {
	if w.profile.Erased() {
		f.finish(w, engine.Verdict{Outcome: engine.UserErased})
		return
	}
	var applied engine.Applied
	if w.profile != nil {
		applied = w.profile.Applied
	}
	w.look()
	f.dropOverdue(w)
	s := f.dedups.Get().(*engine.Dedup)
	inBatch, folded := s.Duplicates(w.events, applied)
	events := w.events[:0]
	for i, d := range w.events {
		switch {
		case folded[i]:
			f.settleFolded(w, &d)
		case inBatch[i] && holds(events, d.Event.Digest):
			w.copies = append(w.copies, d)
		case applied.PastHorizon(d.FirstSeen):
			// Its id is absent, but that says nothing any more: the bound stays.
			v := pastHorizon(&d, applied.Floor)
			f.settle(&d, v)
			for _, twin := range w.takeCopies(d.Event.Digest) {
				f.settle(&twin, v)
			}
		default:
			events = append(events, d)
		}
	}
	f.dedups.Put(s)
	w.events = events
	if len(events) == 0 {
		f.finish(w, engine.Verdict{Outcome: engine.Duplicate})
	}
}

// errOverdue ends a delivery whose lease is over.
var errOverdue = errors.New("delivered too long ago to be folded: the broker delivers it again")

// dropOverdue leaves the events to their source whose lease is over: their ids may
// have been dropped from the profile since another worker folded them. It is
// called after every look at the profile. A later write succeeds only where the
// profile is still the one that was looked at.
func (f *flush) dropOverdue(w *work) {
	if f.config.Lease == 0 {
		return
	}
	now := time.Now()
	events := w.events[:0]
	for i := range w.events {
		d := w.events[i]
		if !f.overdue(&d, now) {
			events = append(events, d)
			continue
		}
		// A younger copy takes the place of its original.
		twins := w.takeCopies(d.Event.Digest)
		for j := range twins {
			if !f.overdue(&twins[j], now) {
				events = append(events, twins[j])
				w.copies = append(w.copies, twins[j+1:]...)
				break
			}
		}
	}
	w.events = events
}

// overdue leaves a delivery to its source if its lease is over.
func (f *flush) overdue(d *engine.Delivery, now time.Time) bool {
	if d.Age(now) <= f.config.Lease {
		return false
	}
	f.stats.Overdue.Add(1)
	f.settle(d, engine.Verdict{Outcome: engine.Unsettled, Err: errOverdue})
	return true
}

// holds reports whether an event of this digest is among deliveries: one that
// repeats an event which was settled is judged by itself.
func holds(deliveries []engine.Delivery, digest engine.Digest) bool {
	for i := range deliveries {
		if deliveries[i].Event.Digest == digest {
			return true
		}
	}
	return false
}

func pastHorizon(d *engine.Delivery, floor engine.Millis) engine.Verdict {
	const layout = "2006-01-02T15:04:05.000Z07:00"
	err := fmt.Errorf("not folded as of %s, but ids up to %s were dropped: it cannot be proven new; replay it with --force if it is",
		d.FirstSeen.Time().Format(layout), floor.Time().Format(layout))
	return engine.Verdict{Outcome: engine.Dead, Reason: engine.ReasonPastHorizon, Err: err}
}

// foreign reports a profile made under other settings: folding into it would
// mix what cannot be mixed.
func (f *flush) foreign(p *engine.Profile) error {
	c := f.config
	switch {
	case p == nil, p.Erased():
		return nil
	case p.History != c.History:
		return engine.ConfigurationError("other_history", fmt.Errorf(
			"user %d was folded with history %q, this worker has %q: set EMBEDDING_HISTORY=%s, or make all profiles anew (`keyfold user rebuild --all`)",
			p.UserID, p.History, c.History, p.History))
	case len(p.Vector) != c.Dimensions:
		return engine.ConfigurationError("other_dimensions", fmt.Errorf(
			"user %d has %d dimensions, this worker %d: set EMBEDDING_DIMENSIONS=%d, or make all profiles anew (`keyfold user rebuild --all`)",
			p.UserID, len(p.Vector), c.Dimensions, len(p.Vector)))
	case p.Model != "" && p.Model != c.Model:
		return engine.ConfigurationError("other_model", fmt.Errorf(
			"user %d was made with model %q, this worker has %q: set EMBEDDING_MODEL=%s, or make all profiles anew (`keyfold user rebuild --all`)",
			p.UserID, p.Model, c.Model, p.Model))
	}
	return nil
}

// fold makes w.next of the events that have a vector and settles the others.
func (f *flush) fold(w *work, now engine.Millis) {
	room := f.room(w, now)
	if !w.fresh && f.comesAgain(w, room) {
		w.lookAgain()
		return
	}
	steps := make([]engine.Step, 0, len(w.events))
	events := w.events[:0]
	for i := range w.events {
		d := w.events[i]
		r := f.vectors.of(&d.Event)
		if r.Err != nil {
			f.settleWithCopies(w, &d, f.unresolved(r.Err))
			continue
		}
		if len(events) == room {
			f.settleWithCopies(w, &d, engine.Verdict{Outcome: engine.Park, Err: errTooBusy})
			continue
		}
		steps = append(steps, engine.Step{
			Vector: r.Vector,
			Weight: f.config.Weights.Of(d.Event.Type),
			At:     d.Event.OccurredAt,
		})
		events = append(events, d)
	}
	w.events = events
	if len(events) == 0 {
		f.finish(w, engine.Verdict{Outcome: engine.Duplicate})
		return
	}
	w.next = f.next(w, steps, now)
}

// errTooBusy parks events of a user whose profile has no room for their ids.
var errTooBusy = errors.New("the user has too many events at a time: their ids find no room in its profile until others are older")

// room returns how many of the work's events the record of ids has room for.
func (f *flush) room(w *work, now engine.Millis) int {
	var applied engine.Applied
	if w.profile != nil {
		applied = w.profile.Applied
	}
	return applied.Room(now, f.config.IDs)
}

// comesAgain reports whether an event of the work cannot be folded now and will
// come again, or may be replayed.
func (f *flush) comesAgain(w *work, room int) bool {
	if len(w.events) > room {
		return true
	}
	for i := range w.events {
		if err := f.vectors.of(&w.events[i].Event).Err; err != nil && !errors.Is(err, engine.ErrMissing) {
			return true
		}
	}
	return false
}

// unresolved is the verdict on an event that has no vector.
func (f *flush) unresolved(err error) engine.Verdict {
	if errors.Is(err, engine.ErrMissing) {
		return engine.Verdict{Outcome: engine.ProductMissing, Err: err}
	}
	if f.ctx.Err() != nil {
		// The worker is stopping: that costs no attempt.
		return engine.Verdict{Outcome: engine.Unsettled, Err: err}
	}
	if errors.Is(err, engine.ErrAway) {
		return engine.Verdict{Outcome: engine.Park, Err: err}
	}
	switch engine.KindOf(err) {
	case engine.Permanent:
		return engine.Verdict{Outcome: engine.Dead, Reason: engine.ReasonOf(err), Err: err}
	case engine.Configuration:
		f.ports.OnConfigError(err)
		return engine.Verdict{Outcome: engine.Unsettled, Err: err}
	default:
		return engine.Verdict{Outcome: engine.Retry, Err: err}
	}
}

// next is the profile after the events.
func (f *flush) next(w *work, steps []engine.Step, now engine.Millis) *engine.Profile {
	ids := make([]engine.AppliedID, len(w.events))
	for i := range w.events {
		ids[i] = w.events[i].Event.Digest.ID()
	}
	p := &engine.Profile{
		UserID:     w.user,
		Version:    1,
		EventCount: int64(len(w.events)),
		History:    f.config.History,
		Model:      f.config.Model,
		CreatedAt:  now,
		WrittenAt:  now,
	}
	var state engine.State
	var applied engine.Applied
	newest := &w.events[len(w.events)-1].Event
	p.LastType, p.LastID = newest.Type, newest.MessageID
	if old := w.profile; old != nil {
		state, applied = old.State(), old.Applied
		p.Version, p.CreatedAt = old.Version+1, old.CreatedAt
		p.EventCount += old.EventCount
		if last := (engine.Event{OccurredAt: old.Updated, MessageID: old.LastID}); newest.Before(&last) {
			p.LastType, p.LastID = old.LastType, old.LastID
		}
	}
	f.noteGap(w, steps)
	state = f.config.Fold(state, steps)
	p.Vector, p.Mass, p.Updated = state.Vector, state.Mass, state.Updated
	p.Applied = applied.With(rand.Uint64(), ids, now, f.config.IDs)
	return p
}
