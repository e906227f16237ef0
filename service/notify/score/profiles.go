package score

import (
	"context"
	"errors"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/profile"
)

// taste is what is kept of a user's profile.
type taste struct {
	vector []float64   // of unit length
	skip   notify.Skip // why there is none
	old    time.Time   // when it is read again
}

// sizeOf estimates the bytes that an entry of the cache keeps alive.
func sizeOf(_ int32, t taste) int64 {
	const fixed = 192 // the entry, its map slot and the header
	return fixed + int64(8*len(t.vector))
}

// tastes returns the profiles of open events' users, and those events whose user has
// one; the others are told in scores.
func (s *Scores) tastes(ctx context.Context, users []int32, open []int, scores []notify.Score) (tastes map[int32]taste, found []int) {
	tastes = map[int32]taste{}
	now := time.Now()
	var asked []int32
	for _, i := range open {
		user := users[i]
		if _, met := tastes[user]; met {
			continue
		}
		kept, ok := s.cache.Get(user)
		if !ok || !now.Before(kept.old) {
			asked = append(asked, user)
		}
		tastes[user] = kept
	}
	if len(asked) > 0 {
		s.load(ctx, asked, tastes)
	}
	for _, i := range open {
		if t := tastes[users[i]]; t.skip != "" {
			scores[i].Skip = t.skip
		} else {
			found = append(found, i)
		}
	}
	return tastes, found
}

// load reads profiles, in one call, and keeps them.
func (s *Scores) load(ctx context.Context, users []int32, tastes map[int32]taste) {
	var profiles []*profile.Profile
	var unreadable *engine.UnreadableError
	skip := s.store.pass(func() error {
		loaded, err := s.profiles.Load(ctx, users)
		if errors.As(err, &unreadable) { // it answered
			err = nil
		}
		if err == nil {
			profiles = loaded
		}
		return err
	})
	old := time.Now().Add(s.config.ProfileTTL)
	for i, user := range users {
		if profiles == nil {
			tastes[user] = taste{skip: skip}
			continue
		}
		t := s.tasteOf(profiles[i])
		if unreadable != nil && unreadable.Users[user] != nil {
			t = taste{skip: notify.SkipOtherProfile}
		}
		t.old = old
		s.cache.Put(user, t)
		tastes[user] = t
	}
}

// tasteOf returns what there is to compare with.
func (s *Scores) tasteOf(p *profile.Profile) taste {
	switch {
	case p == nil, p.Erased(), p.Mass == 0, p.Mass < s.config.Faint, len(p.Vector) == 0:
		return taste{skip: notify.SkipNoProfile}
	case p.Model != "" && p.Model != s.config.Model, p.History != s.config.History:
		return taste{skip: notify.SkipOtherProfile}
	}
	return taste{vector: p.Vector}
}
