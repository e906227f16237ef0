package processor

import (
	"errors"
	"math/rand/v2"
	"strings"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// fold makes w.next of the events that have a vector and settles the others.
func (f *flush) fold(w *work, now engine.Millis) {
	room := f.room(w, now)
	if !w.fresh && f.comesAgain(w, room) {
		w.lookAgain()
		return
	}
	steps := make([]profile.Step, 0, len(w.events))
	events := w.events[:0]
	for i := range w.events {
		d := w.events[i]
		step, err := f.vectors.step(&d.Event, &f.config.Weights)
		if err != nil {
			f.settleWithCopies(w, &d, f.unresolved(err))
			continue
		}
		if len(events) == room {
			f.settleWithCopies(w, &d, engine.Verdict{Outcome: engine.Park, Err: errTooBusy})
			continue
		}
		steps = append(steps, step)
		events = append(events, d)
	}
	w.events, w.steps = events, steps
	if len(events) == 0 && !w.mayMark() {
		f.finish(w, engine.Verdict{Outcome: engine.Duplicate})
	}
}

// compose makes w.next of what is left of a work, its marks last: copies are confirmed by
// then.
func (f *flush) compose(w *work, now engine.Millis) {
	if w.steps == nil { // it looks again first
		return
	}
	marks := w.marks()
	switch {
	case len(w.events) > 0:
		w.next = f.next(w, w.steps, now)
	case marks.Equal(w.profile.Marks):
		f.finish(w, engine.Verdict{Outcome: engine.Duplicate})
		return
	default:
		w.next = f.marked(w.profile, now)
	}
	w.next.Marks = marks
}

// errTooBusy parks events of a user whose profile has no room for their ids.
var errTooBusy = errors.New("the user has too many events at a time: their ids find no room in its profile until others are older")

// room returns how many of the work's events the record of ids has room for.
func (f *flush) room(w *work, now engine.Millis) int {
	var applied profile.Applied
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

// unresolved is the verdict on an event that has no vector, or no weight.
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
func (f *flush) next(w *work, steps []profile.Step, now engine.Millis) *profile.Profile {
	ids := make([]profile.AppliedID, len(w.events))
	for i := range w.events {
		ids[i] = w.events[i].Event.Digest.ID()
	}
	p := &profile.Profile{
		UserID:     w.user,
		Version:    1,
		EventCount: int64(len(w.events)),
		History:    f.config.History,
		Model:      f.config.Model,
		CreatedAt:  now,
		WrittenAt:  now,
	}
	var state profile.State
	var applied profile.Applied
	var short profile.Short
	newest := &w.events[len(w.events)-1].Event
	p.LastType, p.LastID = newest.Type, strings.Clone(newest.MessageID) // profiles are kept, and its chunk is not
	if old := w.profile; old != nil {
		state, applied, short = old.State(), old.Applied, old.Short
		p.Version, p.CreatedAt = old.Version+1, old.CreatedAt
		p.EventCount += old.EventCount
		if last := (profile.Event{OccurredAt: old.Updated, MessageID: old.LastID}); newest.Before(&last) {
			p.LastType, p.LastID = old.LastType, old.LastID
		}
	}
	f.noteGap(w, steps)
	p.Short = f.config.FoldShort(short, state.Updated, steps)
	state = f.config.Fold(state, steps)
	p.Vector, p.Mass, p.Updated = state.Vector, state.Mass, state.Updated
	with := applied.With
	if w.allRead() {
		with = applied.WithRead
	}
	p.Applied = with(rand.Uint64(), ids, now, f.config.IDs)
	return p
}
