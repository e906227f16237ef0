package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/proof/schedule"
)

// callTimeout is how long a worker waits for the store's answer.
const callTimeout = 10 * time.Second

// mostSkew is by how much the store's clock is wrong at most.
const mostSkew = 20 * time.Minute

// store is a model of a replicated document store. A write is made on the primary,
// under its version, and a majority has it some time later; reads see what a
// majority has. A failover takes back what it has not.
type store struct {
	*simulation
	mu        sync.Mutex
	latest    map[int32]*profile.Profile // on the primary
	committed map[int32]*profile.Profile // what a majority has
	pending   []*entry                   // written and not committed, oldest first
	down      time.Time                  // no answers until then
	skew      time.Duration              // of its clock
	hangs     bool                       // while down: silence instead of errors
	calls     map[uint64]uint64          // so far, by what they were about
	faults    []error                    // laws the workers broke
}

// entry is one write on its way to a majority.
type entry struct {
	profile *profile.Profile
	due     time.Time
	fate    fate
}

type fate uint8

const (
	waiting fate = iota
	durable
	rolledBack
)

var errStoreDown = errors.New("sim: the store is down")

func newStore(w *simulation) *store {
	d := w.rng("clock")
	return &store{
		skew:       d.Between(-mostSkew, mostSkew),
		simulation: w, latest: map[int32]*profile.Profile{}, committed: map[int32]*profile.Profile{},
		calls: map[uint64]uint64{},
	}
}

// rngFor returns the random numbers of a call, which is known by its caller, its kind and
// the first user it is about.
func (s *store) rngFor(caller uint64, kind string, user int32) schedule.RNG {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := schedule.Mix(caller<<32 + uint64(user))
	for i := range len(kind) {
		key = schedule.Mix(key ^ uint64(kind[i]))
	}
	s.calls[key]++
	return s.rng("store "+kind, caller, uint64(user), s.calls[key])
}

// advance commits what is due. The caller holds mu.
func (s *store) advance() {
	now := time.Now()
	for len(s.pending) > 0 && !s.pending[0].due.After(now) {
		e := s.pending[0]
		s.pending = s.pending[1:]
		e.fate = durable
		s.committed[e.profile.UserID] = e.profile
	}
}

// apply writes one profile on the primary, under its version. The caller holds mu.
func (s *store) apply(next *profile.Profile, lag time.Duration) (*entry, error) {
	stored := s.latest[next.UserID]
	due := int32(1)
	if stored != nil {
		due = stored.Version + 1
	}
	if !s.blindSwaps && (next.Version != due || stored.Erased()) {
		s.Note("store", "conflict: user, version, stored", int64(next.UserID), int64(next.Version), int64(due-1))
		return nil, engine.ErrConflict
	}
	e := &entry{profile: next, due: time.Now().Add(lag)}
	if n := len(s.pending); n > 0 && e.due.Before(s.pending[n-1].due) {
		e.due = s.pending[n-1].due // a majority learns of writes in their order
	}
	s.latest[next.UserID] = next
	s.pending = append(s.pending, e)
	s.Note("store", "written: user, version, events", int64(next.UserID), int64(next.Version), next.EventCount)
	return e, nil
}

// takeDown implements [profileStore].
func (s *store) takeDown(span time.Duration, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.hangs = time.Now().Add(span), hangs
}

// heal implements [profileStore]. What is down comes back by itself.
func (s *store) heal() {}

// stored implements [profileStore]: what a majority has.
func (s *store) stored() (map[int32]*profile.Profile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return maps.Clone(s.committed), nil
}

// failOver implements [profileStore]: it takes back what no majority has.
func (s *store) failOver(action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	for _, e := range s.pending {
		e.fate = rolledBack
		user := e.profile.UserID
		s.latest[user] = s.committed[user]
		if s.latest[user] == nil {
			delete(s.latest, user)
		}
	}
	s.Note("store", "failover, writes taken back", int64(len(s.pending)))
	s.pending = nil
	d := s.rng("clock", uint64(time.Since(s.Began)))
	s.skew = d.Between(-mostSkew, mostSkew)
}

// accounted reports whether an event needs no copy in a queue any more.
func (s *store) accounted(e *event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	p := s.committed[e.user]
	if e.fate == missing || p.Erased() {
		return true
	}
	if p == nil || e.digest == (profile.Digest{}) {
		return false
	}
	return slices.Contains(p.Applied.IDs, e.digest.ID())
}

// erase implements [profileStore]. It goes on until a majority has the tombstone.
func (s *store) erase(user int32) {
	d := s.rng("erase", uint64(user))
	for {
		s.mu.Lock()
		tombstone := &profile.Profile{UserID: user, Version: 1, ErasedAt: engine.Now()}
		if stored := s.latest[user]; stored != nil {
			tombstone.Version = stored.Version + 1
		}
		e, err := s.apply(tombstone, d.Latency(5*time.Millisecond, 5*time.Second))
		s.mu.Unlock()
		if err != nil {
			return // erased already
		}
		if time.Sleep(time.Until(e.due)); s.fateOf(e) == durable {
			return
		}
	}
}

func (s *store) fateOf(e *entry) fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return e.fate
}

// away reports whether the store is down, and whether it hangs instead of failing.
func (s *store) away() (away, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.down), s.hangs
}

// pause waits for d, less where ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reach is the way to the store: an error where no answer comes.
func (s *store) reach(ctx context.Context, d *schedule.RNG) error {
	if err := pause(ctx, d.Latency(3*time.Millisecond, 300*time.Millisecond)); err != nil {
		return err
	}
	away, hangs := s.away()
	switch {
	case !away:
		return nil
	case hangs:
		if err := pause(ctx, callTimeout); err != nil {
			return err
		}
		return fmt.Errorf("%w: no answer in time", errStoreDown)
	default:
		if err := pause(ctx, d.Between(10*time.Millisecond, 100*time.Millisecond)); err != nil {
			return err
		}
		return errStoreDown
	}
}
