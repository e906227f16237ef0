package processor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// screen settles what needs no folding: everything of an erased user,
// duplicates, and ids that can no longer be proven new.
func (f *flush) screen(w *work) {
	if w.profile.Erased() {
		f.finish(w, engine.Verdict{Outcome: engine.UserErased})
		return
	}
	w.takeRepeats()
	if f.streamChanged(w) {
		return
	}
	var applied profile.Applied
	if w.profile != nil {
		applied = w.profile.Applied
	}
	w.look()
	f.dropMarked(w)
	f.dropOverdue(w)
	s := f.dedups.Get().(*profile.Dedup)
	inBatch, folded := s.Duplicates(w.events, applied)
	events := w.events[:0]
	for i, d := range w.events {
		switch {
		case folded[i] && w.unmarked(&d):
			w.read.repeats = append(w.read.repeats, d)
		case folded[i]:
			f.settleFolded(w, &d)
		// One that repeats an event which was settled is judged by itself, and so is an old
		// copy beside what its publisher sent again: it would get that one's bound.
		case inBatch[i] && slices.ContainsFunc(events, func(e profile.Delivery) bool {
			return e.Event.Digest == d.Event.Digest && (e.Place == d.Place || !applied.PastHorizon(d.FirstSeen))
		}):
			w.copies = append(w.copies, d)
		case applied.PastHorizon(d.FirstSeen):
			// Its id is absent, but that says nothing any more: the bound stays.
			v := pastHorizon(&d, applied.Floor)
			f.settle(&d, v)
			for _, again := range w.takeCopies(d.Event.Digest) {
				f.settle(&again, v)
			}
		default:
			events = append(events, d)
		}
	}
	f.dedups.Put(s)
	w.events = events
	if len(events)+len(w.read.repeats) == 0 {
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
		copies := w.takeCopies(d.Event.Digest)
		for j := range copies {
			if !f.overdue(&copies[j], now) {
				events = append(events, copies[j])
				w.copies = append(w.copies, copies[j+1:]...)
				break
			}
		}
	}
	w.events = events
}

// overdue leaves a delivery to its source if its lease is over.
func (f *flush) overdue(d *profile.Delivery, now time.Time) bool {
	if d.Age(now) <= f.config.Lease {
		return false
	}
	f.stats.Overdue.Add(1)
	f.settle(d, engine.Verdict{Outcome: engine.Unsettled, Err: errOverdue})
	return true
}

func pastHorizon(d *profile.Delivery, floor engine.Millis) engine.Verdict {
	const layout = "2006-01-02T15:04:05.000Z07:00"
	err := fmt.Errorf("not folded as of %s, but ids up to %s were dropped: it cannot be proven new; replay it with --force if it is",
		d.FirstSeen.Time().Format(layout), floor.Time().Format(layout))
	return engine.Verdict{Outcome: engine.Dead, Reason: engine.ReasonPastHorizon, Err: err}
}
