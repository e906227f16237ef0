package processor

import (
	"errors"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// load fills in the profiles of works that have none yet, from the cache or in
// one read.
func (f *flush) load() error {
	var users []int32
	for i := range f.works {
		w := &f.works[i]
		if w.loaded {
			continue
		}
		if p, ok := f.cache.Get(w.user); ok && !w.fresh && f.stale.trusted() {
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
	called := time.Now()
	profiles, err := f.ports.Profiles.Load(f.ctx, users)
	f.stats.LoadTime.Observe(time.Since(called))
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

// leaveUnusable settles works whose profiles cannot be used: folding into them could
// only make it worse. One user's is parked with no attempt used until it is cured,
// and stops no other; where it meets most users it is a fault of the settings.
func (f *flush) leaveUnusable() {
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
	f.unusable.healthy(fit...)
	if len(unfit) == 0 {
		return
	}
	most := f.unusable.widespread(unfit...) || !f.hasBreaker
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

// foreign reports a profile made under other settings: folding into it would
// mix what cannot be mixed.
func (f *flush) foreign(p *profile.Profile) error {
	c := f.config
	switch {
	case p == nil, p.Erased():
		return nil
	case p.History != c.History:
		return engine.ConfigurationError("other_history", fmt.Errorf(
			"user %d was folded with history %q, this worker has %q: set %s=%s, or make all profiles anew (%s)",
			p.UserID, p.History, c.History, historySetting, p.History, rebuildAllCommand))
	case len(p.Vector) != c.Dimensions:
		return engine.ConfigurationError("other_dimensions", fmt.Errorf(
			"user %d has %d dimensions, this worker %d: set %s=%d, or make all profiles anew (%s)",
			p.UserID, len(p.Vector), c.Dimensions, dimensionsSetting, len(p.Vector), rebuildAllCommand))
	case p.Model != "" && p.Model != c.Model:
		return engine.ConfigurationError("other_model", fmt.Errorf(
			"user %d was made with model %q, this worker has %q: set %s=%s, or make all profiles anew (%s)",
			p.UserID, p.Model, c.Model, modelSetting, p.Model, rebuildAllCommand))
	case p.Short.Vector != nil && p.Short.HalfLife != c.ShortHalfLife: // one without gets it with its next event
		return engine.ConfigurationError("other_short_half_life", fmt.Errorf(
			"user %d has a second vector of the half-life %v, this worker has %v: set %s=%v, or make all profiles anew (%s)",
			p.UserID, p.Short.HalfLife, c.ShortHalfLife, shortSetting, p.Short.HalfLife, rebuildAllCommand))
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
	f.ports.OnConfigError(err)
	f.finishAll(engine.Verdict{Outcome: engine.Unsettled, Err: err})
	return nil
}

// reload makes the next round read the profile from the store.
func (w *work) reload() {
	w.loaded, w.profile, w.unfit, w.next, w.steps = false, nil, nil, nil, nil
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
