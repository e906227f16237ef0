package recommend

import (
	"context"
	"time"

	"keyfold/engine"
	"keyfold/engine/lru"
	"keyfold/engine/profile"
)

// knownProfiles reads profiles, and remembers them for when the store does not answer.
type knownProfiles struct {
	store    Profiles
	kept     *lru.Cache[int32, knownProfile]
	staleFor time.Duration
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
	profiles, err := k.store.Load(ctx, []int32{user})
	if err == nil {
		p = profiles[0]
		if k.staleFor > 0 {
			k.kept.PutUnless(user, knownProfile{p, asked}, func(kept knownProfile) bool { return kept.at.After(asked) })
		}
		return p, 0, nil
	}
	if engine.KindOf(err) == engine.Transient && ctx.Err() == nil {
		if known, ok := k.kept.Get(user); ok && asked.Sub(known.at) <= k.staleFor {
			return known.profile, max(asked.Sub(known.at), time.Millisecond), nil
		}
	}
	return nil, 0, err
}
