package processor

import (
	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/profile"
)

// dated completes the verdict on one event by when it was last known not to be
// folded. Where the profile could not be looked at, the bound of a copy stays; what
// came straight from a broker may have been folded by a worker that had it before,
// within the horizon, or its id is not kept for sure.
func (f *flush) dated(w *work, d *profile.Delivery, v engine.Verdict) engine.Verdict {
	v.AbsentAt = w.absentAt
	if w.absentAt == 0 && d.Reader != nil && v.Outcome.Settlement() != engine.Ack {
		// However long ago it was folded, its stream still has it. It is read again.
		return engine.Verdict{Outcome: engine.Unsettled, Err: v.Err}
	}
	if w.absentAt != 0 || d.FirstSeen != 0 || v.Outcome != engine.Retry && v.Outcome != engine.Park {
		return v
	}
	now, err := f.ports.Profiles.Now(f.ctx)
	if err != nil || w.unknown {
		return engine.Verdict{Outcome: engine.Unsettled, Err: v.Err}
	}
	v.AbsentAt = now - engine.Millis((f.config.Lease + f.config.IDs.Horizon).Milliseconds())
	return v
}

// finish settles what is left of a work, events and copies alike.
func (f *flush) finish(w *work, v engine.Verdict) {
	for i := range w.events {
		f.settle(&w.events[i], f.dated(w, &w.events[i], v))
	}
	f.finishCopies(w, v)
	f.finishRepeats(w, v)
	w.events, w.done = nil, true
}

func (f *flush) finishAll(v engine.Verdict) {
	for i := range f.works {
		f.finish(&f.works[i], v)
	}
	f.works = f.works[:0]
}

// settleWithCopies settles one event that was not folded. Copies of the
// same event in this batch get the same verdict. One copy may belong to a session
// that has ended, whose verdict is dropped: were the other acknowledged as its
// duplicate, the retry or dead letter would be lost.
func (f *flush) settleWithCopies(w *work, d *profile.Delivery, v engine.Verdict) {
	w.read.left = w.read.left || v.Outcome.Settlement() != engine.Ack
	f.settle(d, f.dated(w, d, v))
	for _, again := range w.takeCopies(d.Event.Digest) {
		f.settle(&again, f.dated(w, &again, v))
	}
}

// settleFolded settles an event whose id is in the profile, and its copies.
func (f *flush) settleFolded(w *work, d *profile.Delivery) {
	v := engine.Verdict{Outcome: engine.Duplicate}
	if w.unknown {
		v.Outcome = engine.Folded
	}
	f.settle(d, v)
	for _, again := range w.takeCopies(d.Event.Digest) {
		if w.unmarked(&again) {
			w.read.repeats = append(w.read.repeats, again)
			continue
		}
		f.settle(&again, engine.Verdict{Outcome: engine.Duplicate})
	}
}

// takeCopies takes the copies of one event out of a work.
func (w *work) takeCopies(of profile.Digest) (taken []profile.Delivery) {
	rest := w.copies[:0]
	for _, d := range w.copies {
		if d.Event.Digest == of {
			taken = append(taken, d)
		} else {
			rest = append(rest, d)
		}
	}
	w.copies = rest
	return taken
}

func (f *flush) finishCopies(w *work, v engine.Verdict) {
	for i := range w.copies {
		f.settle(&w.copies[i], f.dated(w, &w.copies[i], v))
	}
	w.copies = nil
}

// settle hands a verdict to the delivery's source, counts it and logs it once.
func (f *flush) settle(d *profile.Delivery, v engine.Verdict) {
	failpoint.Reach(failpoint.BeforeSettle)
	if v.Outcome == engine.ProductMissing {
		f.lacking.note(&f.stats)
	}
	f.stats.Outcomes[v.Outcome].Add(1)
	f.logVerdict(d, v)
	d.Settler.Settle(v)
}
