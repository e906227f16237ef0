package taste

import (
	"keyfold/engine"
	"keyfold/engine/failpoint"
)

// work is one user's batch on its way through a flush.
type work struct {
	user int32
	// events are the deliveries not settled yet, in folding order; twins are
	// those whose id stands in events too: they end when their original does.
	events []engine.Delivery
	twins  []engine.Delivery

	loaded  bool            // profile is what the store or the cache said
	profile *engine.Profile // nil: the user has none, or it is unfit
	unfit   error           // why the user's profile cannot be used
	next    *engine.Profile // what the events make of it

	// fresh: profile was read from the store in this flush, at the store's time
	// readAt. It stays set once the cache was passed by.
	fresh  bool
	readAt engine.Millis
	// absentAt is when the events were last known not to be folded, 0 while that
	// was not looked up.
	absentAt engine.Millis

	// unknown: a write of this work may have happened. Ids found in the
	// profile then are its own events, not duplicates.
	unknown bool
	done    bool
}

// reload makes the next round read the profile from the store.
func (w *work) reload() {
	w.loaded, w.profile, w.unfit, w.next = false, nil, nil, nil
}

// look notes since when the events that are not in the profile are known not to
// be folded. A cached profile tells that for the time of its write. After an
// unknown write nothing can be noted: it may still come into effect.
func (w *work) look() {
	switch {
	case w.unknown:
	case w.fresh && w.profile != nil:
		// The store's clock may have been set back since the last write.
		w.absentAt = max(w.readAt, w.profile.Applied.Last())
	case w.fresh:
		w.absentAt = w.readAt
	case w.profile != nil:
		w.absentAt = w.profile.Applied.Last()
	}
}

// lookAgain has a cached profile read from the store in the next round: what comes
// again is looked up where no cache can be behind.
func (w *work) lookAgain() {
	if !w.fresh {
		w.reload()
		w.fresh = true
	}
}

// dated completes the verdict on one event by when it was last known not to be
// folded. Where the profile could not be looked at, the bound of a copy stays; what
// came straight from a broker may have been folded by a worker that had it before,
// within the horizon, or its id is not kept for sure.
func (f *flush) dated(w *work, d *engine.Delivery, v engine.Verdict) engine.Verdict {
	v.AbsentAt = w.absentAt
	if w.absentAt != 0 || d.FirstSeen != 0 || v.Outcome != engine.Retry && v.Outcome != engine.Park {
		return v
	}
	now, err := f.ports.Profiles.Now(f.ctx)
	if err != nil || w.unknown {
		return engine.Verdict{Outcome: engine.Hold, Err: v.Err}
	}
	v.AbsentAt = now - engine.Millis((f.config.Lease + f.config.IDs.Horizon).Milliseconds())
	return v
}

// finish settles what is left of a work, events and twins alike.
func (f *flush) finish(w *work, v engine.Verdict) {
	for i := range w.events {
		f.settle(&w.events[i], f.dated(w, &w.events[i], v))
	}
	f.finishTwins(w, v)
	w.events, w.done = nil, true
}

// settleWithTwins settles one event that was not folded. Its twins share its
// verdict: only one of them may come from a session that still counts, so that
// none can be called a duplicate of another whose retry or letter may never be.
func (f *flush) settleWithTwins(w *work, d *engine.Delivery, v engine.Verdict) {
	f.settle(d, f.dated(w, d, v))
	for _, twin := range w.takeTwins(d.Event.Digest) {
		f.settle(&twin, f.dated(w, &twin, v))
	}
}

// settleFolded settles an event whose id is in the profile, and its twins.
func (f *flush) settleFolded(w *work, d *engine.Delivery) {
	v := engine.Verdict{Outcome: engine.Duplicate}
	if w.unknown {
		v.Outcome = engine.Folded
	}
	f.settle(d, v)
	for _, twin := range w.takeTwins(d.Event.Digest) {
		f.settle(&twin, engine.Verdict{Outcome: engine.Duplicate})
	}
}

// takeTwins takes the twins of one event out of a work.
func (w *work) takeTwins(of engine.Digest) (taken []engine.Delivery) {
	twins := w.twins[:0]
	for _, d := range w.twins {
		if d.Event.Digest == of {
			taken = append(taken, d)
		} else {
			twins = append(twins, d)
		}
	}
	w.twins = twins
	return taken
}

func (f *flush) finishTwins(w *work, v engine.Verdict) {
	for i := range w.twins {
		f.settle(&w.twins[i], f.dated(w, &w.twins[i], v))
	}
	w.twins = nil
}

// settle hands a verdict to the delivery's source, counts it and logs it once.
func (f *flush) settle(d *engine.Delivery, v engine.Verdict) {
	failpoint.Reach(failpoint.BeforeSettle)
	f.stats.Outcomes[v.Outcome].Add(1)
	f.logVerdict(d, v)
	d.Settler.Settle(v)
}
