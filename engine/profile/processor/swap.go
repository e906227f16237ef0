package processor

import (
	"errors"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// swap writes all folded profiles in one call and takes each one's answer.
func (f *flush) swap(began engine.Millis) (down error) {
	works, profiles := make([]*work, 0, len(f.works)), make([]*profile.Profile, 0, len(f.works))
	for i := range f.works {
		if w := &f.works[i]; w.next != nil { // others look again first
			works, profiles = append(works, w), append(profiles, w.next)
		}
	}
	if len(works) == 0 {
		return nil
	}
	called := time.Now()
	answers := f.ports.Profiles.Swap(f.ctx, profiles)
	f.stats.SwapTime.Observe(time.Since(called))
	for i, err := range answers {
		if failure := f.swapped(works[i], err, began); failure != nil {
			down = failure
		}
	}
	return down
}

// swapped takes the store's answer for one profile.
func (f *flush) swapped(w *work, err error, began engine.Millis) (down error) {
	conflict := errors.Is(err, engine.ErrConflict)
	if !w.fresh && (conflict || err == nil) {
		f.stale.note(conflict)
	}
	if err == nil {
		f.written(w, began)
		return nil
	}
	f.cache.Remove(w.user)
	if conflict {
		f.stats.Conflicts.Add(1)
		f.logConflict(w)
		w.reload()
		return nil
	}
	switch engine.KindOf(err) {
	case engine.Permanent:
		f.reject(w, err)
		return nil
	case engine.Configuration:
		f.ports.OnConfigError(err)
		f.finish(w, engine.Verdict{Outcome: engine.Unsettled, Err: err})
		return nil
	default:
		// The write may have happened, whatever the store says of it: only
		// the ids tell.
		f.stats.Failures.Add(1)
		f.stats.Unknowns.Add(1)
		w.unknown = true
		w.reload()
		return err
	}
}

func (f *flush) written(w *work, began engine.Millis) {
	f.cache.Put(w.next.UserID, w.next)
	f.stats.Writes.Add(1)
	if w.profile != nil && w.profile.Short.Vector == nil && w.next.Short.Vector != nil {
		f.stats.Begun.Add(1)
	}
	f.sum.written = append(f.sum.written, w.user)
	f.observe(w)
	f.logWritten(w, began)
	f.finishCopies(w, engine.Verdict{Outcome: engine.Duplicate})
	f.finish(w, engine.Verdict{Outcome: engine.Folded})
}

// observe times what was written.
func (f *flush) observe(w *work) {
	f.stats.UpdateTime.Observe(time.Since(f.sum.began))
	now := engine.Now()
	for i := range w.events {
		f.stats.EventTime.Observe(time.Duration(max(0, now-w.events[i].Event.OccurredAt)) * time.Millisecond)
	}
}

// reject takes a document the store will never accept. A single event is dead;
// several are tried in halves, so that batch mates are saved.
func (f *flush) reject(w *work, err error) {
	if len(w.events) <= 1 {
		f.finish(w, engine.Verdict{Outcome: engine.Dead, Reason: engine.ReasonOf(err), Err: err})
		return
	}
	f.rejected = append(f.rejected, *w)
	w.done = true
}

// giveUp ends works that the store fails though it is not away. Several share a
// read, which one user's document may fail for all: each gets one more round
// alone. What only lacks its products waits for them with no attempt used.
func (f *flush) giveUp(cause error) {
	if len(f.works) == 1 {
		if errors.Is(cause, engine.ErrAway) {
			f.finishAll(engine.Verdict{Outcome: engine.Park, Err: cause})
			return
		}
		f.sum.givenUp = append(f.sum.givenUp, givenUp{f.works[0], cause})
		f.works = f.works[:0]
		return
	}
	for i := range f.works {
		f.part(f.config.Failures-1, f.works[i])
	}
	f.works = f.works[:0]
}

// part runs one work as a flush of its own, within this one.
func (f *flush) part(failed int, w work) {
	p := flush{Engine: f.Engine, ctx: f.ctx, vectors: f.vectors, sum: f.sum, works: []work{w}, failed: failed}
	p.run()
}

// halve runs both halves of a rejected work, in their order: of 500 events the
// one that is rejected is found with some 20 writes.
func (f *flush) halve(w *work) {
	middle := len(w.events) / 2
	for _, events := range [][]profile.Delivery{w.events[:middle:middle], w.events[middle:]} {
		half := work{user: w.user, events: events, unknown: w.unknown, absentAt: w.absentAt}
		for i := range events {
			half.copies = append(half.copies, w.takeCopies(events[i].Event.Digest)...)
		}
		half.read = readOf(slices.Concat(half.events, half.copies))
		half.read.repeats, w.read.repeats = w.read.repeats, nil
		f.part(0, half)
	}
}
