package taste

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"keyfold/engine"
)

// flush is one call of Apply: several users' works that share round trips.
type flush struct {
	*Engine
	ctx     context.Context //nolint:containedctx // a flush lives as long as its call
	vectors *vectors
	works   []work
	failed  int // rounds of the flush this one is a part of
}

// run takes all works through load, screen, resolve, fold and swap until each
// is done. A round repeats for those whose version moved (at most Conflicts
// times) and for those the store failed: as long as it is away, since an absent
// store is no event's fault, and at most Failures times while it is not.
func (f *flush) run() {
	conflicts, failures, relapses, pause := 0, f.failed, 0, f.config.Pause
	for {
		waited, err := f.ports.Await(f.ctx)
		if err != nil {
			f.finishAll(engine.Verdict{Outcome: engine.Hold, Err: fmt.Errorf("the store is away: %w", err)})
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
			f.sleep(jitter(min(2*time.Millisecond<<min(conflicts, 6), f.config.Pause)))
			continue
		}
		if waited { // the store has just shown that it works
			failures = 0
			relapses++
		}
		if failures++; f.told && max(failures, relapses) >= f.config.Failures {
			// Others get through: it is these works the store cannot take, and
			// they must not keep the place of those it can.
			f.giveUp(down)
			return
		}
		f.logStore(down, pause)
		f.sleep(pause/2 + jitter(pause))
		pause = min(2*pause, f.config.MaxPause)
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
	for i := range f.works {
		f.screen(&f.works[i])
	}
	f.keepUndone()
	if err := f.resolve(); err != nil {
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
	f.foldSingly()
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
	if err != nil {
		return err
	}
	f.stats.Reads.Add(int64(len(users)))
	for i, next := 0, 0; i < len(f.works); i++ {
		if w := &f.works[i]; !w.loaded {
			w.profile, w.loaded, w.fresh, w.readAt = profiles[next], true, true, readAt
			next++
		}
	}
	return nil
}

// storeFailed counts a failed call. A configuration fault holds every work and
// is no reason to try again.
func (f *flush) storeFailed(err error) error {
	f.stats.Failures.Add(1)
	if engine.KindOf(err) != engine.Configuration {
		return err
	}
	f.ports.Fault(err)
	f.finishAll(engine.Verdict{Outcome: engine.Hold, Err: err})
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
		f.rejected(w, err)
		return nil
	case engine.Configuration:
		f.ports.Fault(err)
		f.finish(w, engine.Verdict{Outcome: engine.Hold, Err: err})
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
	f.logWritten(w, began)
	f.finishTwins(w, engine.Verdict{Outcome: engine.Duplicate})
	f.finish(w, engine.Verdict{Outcome: engine.Folded})
}

// rejected takes a document the store will never accept. A single event is
// dead; of several, each is tried alone, so that batch mates are saved.
func (f *flush) rejected(w *work, err error) {
	if len(w.events) == 1 {
		f.finish(w, engine.Verdict{Outcome: engine.Dead, Reason: engine.ReasonOf(err), Err: err})
		return
	}
	w.rejected = true
}

// giveUp ends works that the store fails though it is not away. Several share a
// read, which one user's document may fail for all: each gets one more round
// alone. What only lacks its products waits for them with no attempt used.
func (f *flush) giveUp(cause error) {
	if len(f.works) == 1 {
		outcome := engine.Retry
		if errors.Is(cause, engine.ErrAway) {
			outcome = engine.Park
		}
		f.finishAll(engine.Verdict{Outcome: outcome, Err: cause})
		return
	}
	for i := range f.works {
		single := flush{
			Engine: f.Engine, ctx: f.ctx, vectors: newVectors(), works: f.works[i : i+1 : i+1],
			failed: f.config.Failures - 1,
		}
		single.run()
	}
	f.works = f.works[:0]
}

// foldSingly runs each event of a rejected work as a flush of its own.
func (f *flush) foldSingly() {
	for i := range f.works {
		w := &f.works[i]
		if !w.rejected {
			continue
		}
		for _, d := range w.events {
			single := flush{Engine: f.Engine, ctx: f.ctx, vectors: f.vectors, works: []work{
				{
					user: w.user, events: []engine.Delivery{d}, twins: w.takeTwins(d.Event.Digest),
					unknown: w.unknown, absentAt: w.absentAt,
				},
			}}
			single.run()
		}
		w.events, w.done = nil, true
	}
	f.keepUndone()
}

// jitter keeps workers that met each other from meeting again.
func jitter(limit time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(limit))) }

// sleep waits for d or until ctx ends.
func (f *flush) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.ctx.Done():
	}
}
