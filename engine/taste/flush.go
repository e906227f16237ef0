package taste

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
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
	written []int32
	unable  []unable
}

// unable is a work that was given up, and why.
type unable struct {
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
	conflicts, failures, relapses := 0, f.failed, 0
	waits := backoff.Backoff{Min: f.config.Pause, Max: f.config.MaxPause}
	for {
		waited, err := f.ports.WaitForStore(f.ctx)
		if err != nil {
			f.finishAll(engine.Verdict{Outcome: engine.Unsettled, Err: fmt.Errorf("the store is away: %w", err)})
			return
		}
		down := f.round()
		if len(f.works) == 0 {
			return
		}
		if down == nil {
			conflicts++
			if conflicts > f.config.Conflicts {
				f.finishAll(engine.Verdict{Outcome: engine.Retry, Err: engine.ErrConflict})
				return
			}
			// From nothing on: workers that met over a profile are to part.
			backoff.Sleep(f.ctx, rand.N(backoff.Doubled(2*time.Millisecond, f.config.Pause, min(conflicts, 6))))
			continue
		}
		if waited { // the store has just shown that it works
			failures = 0
			relapses++
		}
		if failures++; f.hasBreaker && max(failures, relapses) >= f.config.Failures {
			// Others get through: it is these works the store cannot take, and
			// they must not keep the place of those it can.
			f.giveUp(down)
			return
		}
		pause := waits.Next()
		f.logStore(down, pause)
		backoff.Sleep(f.ctx, pause)
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
	f.setAside()
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
	down = f.swap(began)
	f.keepUndone()
	return down
}

func (f *flush) keepUndone() {
	kept := f.works[:0]
	for i := range f.works {
		if !f.works[i].done {
			kept = append(kept, f.works[i])
		}
	}
	f.works = kept
}

func (f *flush) finishAll(v engine.Verdict) {
	for i := range f.works {
		f.finish(&f.works[i], v)
	}
	f.works = f.works[:0]
}

// load fills in the profiles of works that have none yet, from the cache or in
// one read.
func (f *flush) load() error {
	var users []int32
	for i := range f.works {
		w := &f.works[i]
		if w.loaded {
			continue
		}
		if p := f.cache.get(w.user); p != nil && !w.fresh {
			w.profile, w.loaded = p, true
			f.stats.Hits.Add(1)
			continue
		}
		users = append(users, w.user)
	}
	if len(users) == 0 {
		return nil
	}
	readAt, err := f.ports.Profiles.Now(f.ctx)
	if err != nil {
		return err
	}
	profiles, err := f.ports.Profiles.Load(f.ctx, users)
	var unfit map[int32]error
	if unreadable, ok := errors.AsType[*engine.UnreadableError](err); ok {
		unfit = unreadable.Users
	} else if err != nil {
		return err
	}
	f.stats.Reads.Add(int64(len(users)))
	for i, next := 0, 0; i < len(f.works); i++ {
		if w := &f.works[i]; !w.loaded {
			w.profile, w.loaded, w.unfit = profiles[next], true, unfit[w.user]
			w.fresh, w.readAt = true, readAt
			next++
		}
	}
	return nil
}

// setAside settles works whose profiles cannot be used: folding into them could
// only make it worse. One user's is parked with no attempt used until it is cured,
// and stops no other; where it meets most users it is a fault of the settings.
func (f *flush) setAside() {
	var fit, unfit []int32
	for i := range f.works {
		w := &f.works[i]
		if w.unfit == nil {
			w.unfit = f.foreign(w.profile)
		}
		switch {
		case w.unfit != nil:
			unfit = append(unfit, w.user)
		case w.profile != nil:
			fit = append(fit, w.user)
		}
	}
	f.unfit.fine(fit...)
	if len(unfit) == 0 {
		return
	}
	most := f.unfit.most(unfit...) || !f.hasBreaker
	for i := range f.works {
		w := &f.works[i]
		switch {
		case w.unfit == nil:
		case most:
			f.ports.OnConfigError(w.unfit)
			f.finish(w, engine.Verdict{Outcome: engine.Unsettled, Err: w.unfit})
		default:
			f.logUnfit(w)
			f.finish(w, engine.Verdict{Outcome: engine.Park, Err: w.unfit})
		}
	}
	f.keepUndone()
}

// storeFailed counts a failed call. A configuration fault holds every work and
// is no reason to try again.
func (f *flush) storeFailed(err error) error {
	f.stats.Failures.Add(1)
	if engine.KindOf(err) != engine.Configuration {
		return err
	}
	f.ports.OnConfigError(err)
	f.finishAll(engine.Verdict{Outcome: engine.Unsettled, Err: err})
	return nil
}

// swap writes all folded profiles in one call and takes each one's answer.
func (f *flush) swap(began engine.Millis) (down error) {
	works, profiles := make([]*work, 0, len(f.works)), make([]*engine.Profile, 0, len(f.works))
	for i := range f.works {
		if w := &f.works[i]; w.next != nil { // others look again first
			works, profiles = append(works, w), append(profiles, w.next)
		}
	}
	if len(works) == 0 {
		return nil
	}
	for i, err := range f.ports.Profiles.Swap(f.ctx, profiles) {
		if failure := f.swapped(works[i], err, began); failure != nil {
			down = failure
		}
	}
	return down
}

// swapped takes the store's answer for one profile.
func (f *flush) swapped(w *work, err error, began engine.Millis) (down error) {
	if err == nil {
		f.written(w, began)
		return nil
	}
	f.cache.drop(w.user)
	if errors.Is(err, engine.ErrConflict) {
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
	f.cache.put(w.next)
	f.stats.Writes.Add(1)
	f.sum.written = append(f.sum.written, w.user)
	f.logWritten(w, began)
	f.finishCopies(w, engine.Verdict{Outcome: engine.Duplicate})
	f.finish(w, engine.Verdict{Outcome: engine.Folded})
}

// reject takes a document the store will never accept. A single event is dead;
// several are tried in halves, so that batch mates are saved.
func (f *flush) reject(w *work, err error) {
	if len(w.events) == 1 {
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
		f.sum.unable = append(f.sum.unable, unable{f.works[0], cause})
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
	for _, events := range [][]engine.Delivery{w.events[:middle:middle], w.events[middle:]} {
		half := work{user: w.user, events: events, unknown: w.unknown, absentAt: w.absentAt}
		for i := range events {
			half.copies = append(half.copies, w.takeCopies(events[i].Event.Digest)...)
		}
		f.part(0, half)
	}
}

// judge settles what was given up. A store that works for most users fails the
// others for reasons of their own: that costs an attempt. One that fails many of
// them (a shard is lost, a limit reached) is no event's fault.
func (f *flush) judge() {
	f.unable.fine(f.sum.written...)
	if len(f.sum.unable) == 0 {
		return
	}
	users := make([]int32, len(f.sum.unable))
	for i := range users {
		users[i] = f.sum.unable[i].work.user
	}
	outcome := engine.Retry
	if f.unable.most(users...) {
		outcome = engine.Park
	}
	for i := range f.sum.unable {
		u := &f.sum.unable[i]
		f.finish(&u.work, engine.Verdict{Outcome: outcome, Err: u.cause})
	}
}
