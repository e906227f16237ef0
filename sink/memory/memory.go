package memory

import (
	"context"
	"iter"
	"sync"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// stripes is the number of locks the users share: far above the number of
// goroutines that write at one time.
const (
	stripeBits = 6
	stripes    = 1 << stripeBits
)

// Profiles is a map from user to profile. It keeps and returns the very
// pointers it was given, as profiles are immutable. The zero value is not
// usable; see [New].
type Profiles struct {
	dimensions int
	stripes    [stripes]stripe
	positions  positions
}

type stripe struct {
	mu       sync.RWMutex
	profiles map[int32]*profile.Profile // guarded by mu

	_ [64]byte // keeps the neighbour's lock off this one's cache line
}

var (
	_ profile.Profiles = (*Profiles)(nil)
	_ profile.Eraser   = (*Profiles)(nil)
)

// New returns an empty store of profiles whose vectors have dimensions
// components.
func New(dimensions int) *Profiles {
	p := &Profiles{dimensions: dimensions}
	for i := range p.stripes {
		p.stripes[i].profiles = map[int32]*profile.Profile{}
	}
	return p
}

// of returns the stripe of a user: the top bits of a multiplicative hash, so
// that neither a run of ids nor ids of one remainder share a lock.
func (p *Profiles) of(user int32) *stripe {
	return &p.stripes[uint32(user)*0x9E3779B1>>(32-stripeBits)]
}

// Load implements [profile.Profiles]. It fails only when ctx has ended.
func (p *Profiles) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := make([]*profile.Profile, len(users))
	for i, user := range users {
		s := p.of(user)
		s.mu.RLock()
		found[i] = s.profiles[user]
		s.mu.RUnlock()
	}
	return found, nil
}

// Swap implements [profile.Profiles]. Outcomes are always known: when ctx has
// ended nothing is written, and once begun a Swap runs to its end.
func (p *Profiles) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	errs := make([]error, len(profiles))
	ended := ctx.Err()
	for i, next := range profiles {
		if ended != nil {
			errs[i] = ended
			continue
		}
		errs[i] = p.swap(next)
	}
	return errs
}

func (p *Profiles) swap(next *profile.Profile) error {
	if err := next.Acceptable(p.dimensions); err != nil {
		return err
	}
	s := p.of(next.UserID)
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, exists := s.profiles[next.UserID]
	switch {
	case next.Version == 1 && exists,
		next.Version != 1 && (!exists || stored.Version != next.Version-1),
		stored.Erased():
		return engine.ErrConflict
	}
	s.profiles[next.UserID] = next
	return nil
}

// Forget implements [profile.Eraser]. It fails only when ctx has ended.
func (p *Profiles) Forget(ctx context.Context, user int32, at engine.Millis) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := p.of(user)
	s.mu.Lock()
	defer s.mu.Unlock()
	tombstone := &profile.Profile{UserID: user, Version: 1, ErasedAt: at}
	if stored, exists := s.profiles[user]; exists {
		if stored.Erased() {
			return nil
		}
		tombstone.Version = stored.Version + 1
	}
	s.profiles[user] = tombstone
	return nil
}

// Delete removes a user's document, as an administrator would behind the
// program's back; a later insert of the user is welcome.
func (p *Profiles) Delete(user int32) {
	s := p.of(user)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.profiles, user)
}

// Len returns the number of documents, tombstones included.
func (p *Profiles) Len() int {
	n := 0
	for i := range p.stripes {
		s := &p.stripes[i]
		s.mu.RLock()
		n += len(s.profiles)
		s.mu.RUnlock()
	}
	return n
}

// All yields every document, tombstones included, in no particular order. What
// is written meanwhile may or may not be among them; the loop's body may use
// the store.
func (p *Profiles) All() iter.Seq[*profile.Profile] {
	return func(yield func(*profile.Profile) bool) {
		for i := range p.stripes {
			for _, stored := range p.stripes[i].snapshot() {
				if !yield(stored) {
					return
				}
			}
		}
	}
}

func (s *stripe) snapshot() []*profile.Profile {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*profile.Profile, 0, len(s.profiles))
	for _, stored := range s.profiles {
		all = append(all, stored)
	}
	return all
}

// Now implements [profile.Profiles] with this machine's clock.
func (p *Profiles) Now(ctx context.Context) (engine.Millis, error) { return engine.Now(), ctx.Err() }
