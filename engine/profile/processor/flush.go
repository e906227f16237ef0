package processor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/rounds"
)

// flush is one call of Apply: several users' works that share round trips.
type flush struct {
	*Engine
	ctx     context.Context //nolint:containedctx // a flush lives as long as its call
	vectors *vectors
	works   []work
	sum     *sum // shared with the flushes that are parts of this one
	failed  int  // rounds of the flush this one is a part of
	// rejected are works of several events whose profiles the store will never
	// take: they wait until the others are done.
	rejected []work
}

// sum is what has become of the users of one call of Apply.
type sum struct {
	began   time.Time
	written []int32
	givenUp []givenUp
}

// givenUp is a work that was given up, and why.
type givenUp struct {
	work  work
	cause error
}

// run takes all works as far as they go, and those the store rejects in halves
// afterwards: one user's many writes must not keep the others waiting.
func (f *flush) run() {
	f.rounds()
	for i := range f.rejected {
		f.halve(&f.rejected[i])
	}
}

// rounds takes all works through load, screen, resolve, fold and swap until each
// is done. A round repeats for those whose version moved (at most Conflicts
// times) and for those the store failed: as long as it is away, since an absent
// store is no event's fault, and at most Failures times while it is not.
func (f *flush) rounds() {
	end, err := f.policy.Run(f.ctx, rounds.Work{
		Wait: func() (bool, error) { return f.ports.WaitForStore(f.ctx) },
		Round: func() (left bool, down error) {
			down = f.round()
			return len(f.works) > 0, down
		},
		Failing: f.logStore,
		Failed:  f.failed,
	})
	switch end {
	case rounds.Done:
	case rounds.Conflicting:
		f.finishAll(engine.Verdict{Outcome: engine.Retry, Err: err})
	case rounds.Failing:
		// Others get through: it is these works the store cannot take, and
		// they must not keep the place of those it can.
		f.giveUp(err)
	case rounds.Away:
		f.finishAll(engine.Verdict{Outcome: engine.Unsettled, Err: fmt.Errorf("the store is away: %w", err)})
	case rounds.Stopped:
		f.finishAll(engine.Verdict{Outcome: engine.Unsettled, Err: fmt.Errorf("stopped before the write: %w", err)})
	}
}

// round takes the works through all steps once and keeps those that are not
// done. It returns the store's error if there was one.
func (f *flush) round() (down error) {
	began := engine.Now()
	if err := f.load(); err != nil {
		down = f.storeFailed(err)
		f.keepUndone()
		return down
	}
	f.leaveUnusable()
	for i := range f.works {
		f.screen(&f.works[i])
	}
	f.keepUndone()
	if err := f.resolve(); err != nil {
		for i := range f.works {
			f.works[i].lookAgain() // they may have to come again
		}
		return f.storeFailed(err)
	}
	// The time of the writes is taken as late as may be: ids written with an
	// earlier time are dropped earlier.
	now, err := f.ports.Profiles.Now(f.ctx)
	if err != nil {
		return f.storeFailed(err)
	}
	for i := range f.works {
		f.fold(&f.works[i], now)
	}
	f.keepUndone()
	if now, err = f.awaitCopies(now); err != nil {
		return f.storeFailed(err)
	}
	for i := range f.works {
		f.compose(&f.works[i], now)
	}
	f.keepUndone()
	down = f.swap(began)
	f.keepUndone()
	return down
}

func (f *flush) keepUndone() {
	f.works = slices.DeleteFunc(f.works, func(w work) bool { return w.done })
}

// judge settles what was given up. A store that works for most users fails the
// others for reasons of their own: that costs an attempt. One that fails many of
// them (a shard is lost, a limit reached) is no event's fault.
func (f *flush) judge() {
	f.unwritable.healthy(f.sum.written...)
	if len(f.sum.givenUp) == 0 {
		return
	}
	users := make([]int32, len(f.sum.givenUp))
	for i := range users {
		users[i] = f.sum.givenUp[i].work.user
	}
	outcome := engine.Retry
	if f.unwritable.widespread(users...) {
		outcome = engine.Park
	}
	for i := range f.sum.givenUp {
		u := &f.sum.givenUp[i]
		f.finish(&u.work, engine.Verdict{Outcome: outcome, Err: u.cause})
	}
}

// work is one user's batch on its way through a flush.
type work struct {
	user int32
	// events are the deliveries not settled yet, in folding order; copies are
	// those whose id stands in events too: they get their original's verdict.
	events []profile.Delivery
	copies []profile.Delivery
	// steps are what the events fold, in their order; nil before a fold.
	steps []profile.Step
	read  read

	loaded  bool             // profile is what the store or the cache said
	profile *profile.Profile // nil: the user has none, or it is unfit
	unfit   error            // why the user's profile cannot be used
	next    *profile.Profile // what the events make of it

	// fresh: profile was read from the store in this flush, at the store's time
	// readAt. It stays set once the cache was bypassed.
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
