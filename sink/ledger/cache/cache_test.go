package cache_test

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger/cache"
	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledgertest"
)

var ctx = context.Background()

const start = engine.Millis(1_780_000_000_000)

// checked is a ledger of the suite behind several caches, as of several workers, which
// take the calls in turn. What a cache has of a user must be what the ledger had under
// that version.
type checked struct {
	*memory.Ledger
	t      *testing.T
	caches []*cache.Ledger
	calls  *atomic.Int64
}

func newChecked(t *testing.T, caches int) checked {
	s := checked{Ledger: memory.New(), t: t, calls: &atomic.Int64{}}
	for range caches {
		s.caches = append(s.caches, cache.New(s.Ledger, 1<<20))
	}
	return s
}

func (s checked) next() *cache.Ledger { return s.caches[int(s.calls.Add(1))%len(s.caches)] }

func (s checked) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	var stale []notify.Ask
	for _, ask := range asks {
		ask.Stale, ask.Deferrals = true, false
		stale = append(stale, ask)
	}
	l := s.next()
	old, err := l.Load(ctx, stale)
	if err != nil {
		return nil, err
	}
	now, err := l.Load(ctx, asks)
	for i := range now {
		if old[i].Version > now[i].Version {
			s.t.Errorf("version %d of user %q is of the future: the ledger has %d", old[i].Version, asks[i].User, now[i].Version)
		}
		if old[i].Version == now[i].Version && (!reflect.DeepEqual(old[i].State, now[i].State) || !reflect.DeepEqual(old[i].Preferences, now[i].Preferences)) {
			s.t.Errorf("version %d of user %q is cached as\n%+v, and is\n%+v", now[i].Version, asks[i].User, old[i], now[i])
		}
		if old[i].State != nil {
			old[i].State.DecidedAt++ // the caller's own
		}
	}
	return now, err
}

func (s checked) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	return s.next().Commit(ctx, changes, marks)
}

func (s checked) Forget(ctx context.Context, user string, at engine.Millis) error {
	return s.next().Forget(ctx, user, at)
}

func TestConformance(t *testing.T) {
	for name, caches := range map[string]int{"one": 1, "two race": 2} {
		t.Run(name, func(t *testing.T) {
			ledgertest.Run(t, func(t *testing.T) ledgertest.Store { return ledgertest.Store{Ledger: newChecked(t, caches)} })
		})
	}
}

// stale asks one cache for an earlier state of a user.
func stale(t *testing.T, l notify.Ledger, user string, events ...uuid.UUID) notify.Standing {
	t.Helper()
	all, err := l.Load(ctx, []notify.Ask{{User: user, Events: events, Stale: true}})
	must.OK(t, err)
	return all[0]
}

// write decides an event of a user with what a cache has, and returns the answer.
func write(t *testing.T, l notify.Ledger, user string) error {
	t.Helper()
	had := stale(t, l, user)
	e := ledgertest.Event(user, notify.Update, start)
	c := notify.Change{User: user, Version: had.Version, State: &notify.State{DecidedAt: start, Erased: had.State != nil && had.State.Erased}}
	c.Decided = []notify.Decided{ledgertest.Decide(e, had.Version+1, 0, notify.Now, start)}
	return l.Commit(ctx, []notify.Change{c}, nil)[0]
}

// counting counts the calls of a ledger.
type counting struct {
	notify.Ledger
	loads, commits, asked atomic.Int64
}

func (c *counting) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	c.loads.Add(1)
	c.asked.Add(int64(len(asks)))
	return c.Ledger.Load(ctx, asks)
}

func (c *counting) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	c.commits.Add(1)
	return c.Ledger.Commit(ctx, changes, marks)
}
