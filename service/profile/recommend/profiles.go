package recommend

import (
	"context"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/lru"
	"keyfold/engine/profile"
)

// How long the store is waited for where the profile is known.
const (
	// knownPatience is how long such a request waits for an answer.
	knownPatience = 500 * time.Millisecond
	// awayFailures in a row say that the store is away. Then one such request in awayPause
	// asks it, and the others do not.
	awayFailures = 3
	awayPause    = time.Second
)

// knownProfiles reads profiles, and remembers them for when the store does not answer.
type knownProfiles struct {
	store    Profiles
	kept     *lru.Cache[int32, knownProfile]
	staleFor time.Duration

	mu       sync.Mutex
	failures int       // in a row
	tried    time.Time // when the last one began
}

type knownProfile struct {
	profile *profile.Profile // nil: the user had none
	at      time.Time        // before it was read
}

func newKnownProfiles(store Profiles, c Config) *knownProfiles {
	return &knownProfiles{store: store, staleFor: c.StaleFor, kept: lru.New(c.KnownBytes, func(_ int32, k knownProfile) int64 {
		const fixed = 300 // the entry and the profile's own fields
		if k.profile == nil {
			return fixed
		}
		p := k.profile
		return fixed + int64(8*(len(p.Vector)+len(p.Short.Vector)+len(p.Applied.IDs)))
	})}
}

// load returns the user's profile, nil where there is none, and how old it is where it was
// read before, as the store does not answer now.
func (k *knownProfiles) load(ctx context.Context, user int32) (p *profile.Profile, age time.Duration, err error) {
	asked := time.Now()
	known, ok := k.kept.Get(user)
	ok = ok && k.staleFor > 0 && asked.Sub(known.at) <= k.staleFor
	stale := max(asked.Sub(known.at), time.Millisecond)
	within := ctx
	if ok {
		if k.away(asked) {
			return known.profile, stale, nil
		}
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, knownPatience)
		defer cancel()
	}
	profiles, err := k.store.Load(within, []int32{user})
	failed := err != nil && engine.KindOf(err) == engine.Transient
	if ctx.Err() == nil {
		k.note(asked, failed)
	}
	switch {
	case err == nil:
		p = profiles[0]
		if k.staleFor > 0 {
			k.kept.PutUnless(user, knownProfile{p, asked}, func(kept knownProfile) bool { return kept.at.After(asked) })
		}
		return p, 0, nil
	case failed && ok && ctx.Err() == nil:
		return known.profile, stale, nil
	}
	return nil, 0, err
}

// away reports whether the store is away and not to be asked now.
func (k *knownProfiles) away(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failures < awayFailures {
		return false
	}
	if now.Sub(k.tried) < awayPause {
		return true
	}
	k.tried = now // this request asks
	return false
}

// note notes how a call that began at this time ended.
func (k *knownProfiles) note(began time.Time, failed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !failed {
		k.failures = 0
		return
	}
	k.failures++
	if began.After(k.tried) {
		k.tried = began
	}
}
