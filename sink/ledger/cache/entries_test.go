package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger/cache"
	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledgertest"
)

// The state that was written is the next one's, and no key is read for it.
func TestWrittenStatesAreCached(t *testing.T) {
	behind := &counting{Ledger: memory.New()}
	l := cache.New(behind, 1<<20)
	for range 10 {
		must.OK(t, write(t, l, "a"))
	}
	if n := behind.loads.Load(); n != 1 {
		t.Errorf("%d loads, want the first one only", n)
	}
	got := stale(t, l, "a", uuid.New())
	if got.Version != 10 || got.State.DecidedAt != start || len(got.Known) != 1 || got.Known[0].Outcome != 0 {
		t.Errorf("%+v", got)
	}
	if _, err := l.Load(ctx, []notify.Ask{{User: "a", Stale: true}, {User: "b", Stale: true}}); err != nil || behind.asked.Load() != 2 {
		t.Errorf("%v: %d users were read, want the one that is not cached", err, behind.asked.Load()-1)
	}
	for _, ask := range []notify.Ask{{User: "a"}, {User: "a", Stale: true, Deferrals: true}} {
		before := behind.loads.Load()
		if _, err := l.Load(ctx, []notify.Ask{ask}); err != nil || behind.loads.Load() == before {
			t.Errorf("%+v was answered from memory, %v", ask, err)
		}
	}
}

// What another process changes is met by a conflict, and never lost.
//
// Promise(notify/changed-amid): A decision under former preferences, or for a user erased meanwhile,
// is not written; nothing brings an erased user back.
// Promise(ledger/cache): A cached state that is old conflicts and is read again: decisions are those
// of a run without caches.
// Promise(notify/two-workers)
func TestOldEntriesConflict(t *testing.T) {
	for name, change := range map[string]func(*memory.Ledger) error{
		"a decision": func(s *memory.Ledger) error { return write(t, s, "a") },
		"preferences": func(s *memory.Ledger) error {
			return s.SetPreferences(ctx, "a", notify.Preferences{Caps: notify.Caps{1}})
		},
		"an erasure": func(s *memory.Ledger) error { return s.Forget(ctx, "a", start) },
	} {
		store := memory.New()
		l := cache.New(store, 1<<20)
		must.OK(t, write(t, l, "a"))
		must.OK(t, change(store))
		if err := write(t, l, "a"); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
		if err := write(t, l, "a"); err != nil {
			t.Errorf("%s: the second try: %v", name, err)
		}
	}
}

// An event that was decided before is found by the commit, and its user is read anew.
func TestKnownEventsDropTheEntry(t *testing.T) {
	behind := &counting{Ledger: memory.New()}
	l := cache.New(behind, 1<<20)
	e := ledgertest.Event("a", notify.Update, start)
	for turn := range 2 {
		had := stale(t, l, "a", e.ID)
		c := notify.Change{User: "a", Version: had.Version, State: &notify.State{DecidedAt: start}}
		c.Decided = []notify.Decided{ledgertest.Decide(e, had.Version+1, 0, notify.Now, start)}
		_, known := errors.AsType[*notify.KnownError](l.Commit(ctx, []notify.Change{c}, nil)[0])
		if known != (turn == 1) {
			t.Errorf("turn %d: known is %t", turn, known)
		}
	}
	if stale(t, l, "a"); behind.loads.Load() != 2 {
		t.Errorf("%d loads, want 2", behind.loads.Load())
	}
}

// Two workers that decide for one user in turn would conflict each time.
//
// Promise(notify/two-workers, ledger/cache)
func TestUsersOfTwoWorkersAreNotCached(t *testing.T) {
	store := memory.New()
	workers := []*cache.Ledger{cache.New(store, 1<<20), cache.New(store, 1<<20)}
	conflicts := 0
	const rounds = 1000
	for i := range rounds {
		if err := write(t, workers[i%2], "a"); errors.Is(err, engine.ErrConflict) {
			conflicts++
			must.OK(t, write(t, workers[i%2], "a"))
		}
	}
	if conflicts == 0 || conflicts > rounds/20 {
		t.Errorf("%d conflicts in %d turns", conflicts, rounds)
	}
}

func TestEntriesAreBounded(t *testing.T) {
	const limit = 50_000
	l := cache.New(memory.New(), limit)
	for i := range 1000 {
		must.OK(t, write(t, l, fmt.Sprint("user ", i)))
	}
	users, bytes := l.Usage()
	if users < 50 || users > 500 || bytes > limit || bytes < limit/2 {
		t.Errorf("%d users, %d bytes", users, bytes)
	}
	must.OK(t, write(t, l, "user 1"))
}

// Readers change what they were given, while writers go on.
//
// Promise(ledger/cache)
func TestNothingIsShared(t *testing.T) {
	l := cache.New(memory.New(), 1<<20)
	must.OK(t, write(t, l, "a"))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				s := stale(t, l, "a")
				if s.State == nil || s.State.DecidedAt != start || len(s.State.Sends) != 0 {
					t.Errorf("%+v", s.State)
					return
				}
				s.State.DecidedAt, s.State.Sends = 1, append(s.State.Sends, 1)
				_ = write(t, l, "a") // conflicts are part of it
			}
		})
	}
	group.Wait()
}

// halfRead is a ledger that cannot read one user.
type halfRead struct{ *memory.Ledger }

func (l halfRead) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	all, err := l.Ledger.Load(ctx, asks)
	for i := range asks {
		if asks[i].User == "bad" {
			all[i], err = notify.Standing{}, &notify.UnreadableError{Users: map[string]error{"bad": errors.New("damaged")}}
		}
	}
	return all, err
}

// A user who cannot be read is not cached, and keeps no other one from being.
//
// Promise(ledger/damaged-user)
func TestAnUnreadableUserIsNotCached(t *testing.T) {
	l := cache.New(halfRead{memory.New()}, 1<<20)
	for range 2 {
		all, err := l.Load(t.Context(), []notify.Ask{{User: "bad", Stale: true}, {User: "fine", Stale: true}})
		if _, some := errors.AsType[*notify.UnreadableError](err); !some || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
	}
	if users, _ := l.Usage(); users != 1 {
		t.Errorf("%d users are cached, want the one that was read", users)
	}
}

// A report changes how a user responds and no version: a cached user has what was read, and
// is read again after some changes.
func TestResponsesAreCached(t *testing.T) {
	store := memory.New()
	l := cache.New(store, 1<<20)
	report := func() {
		t.Helper()
		e := ledgertest.Event("anna", notify.Update, start)
		standing, err := store.Load(ctx, []notify.Ask{{User: "anna"}})
		must.OK(t, err)
		d := ledgertest.Decide(e, standing[0].Version+1, 0, notify.Now, start)
		state := &notify.State{DecidedAt: start}
		must.OK(t, store.Commit(ctx, []notify.Change{{User: "anna", Version: standing[0].Version, State: state, Decided: []notify.Decided{d}}}, nil)[0])
		must.OK(t, store.Apply(ctx, []notify.Report{{Event: e.ID, Status: notify.Delivered, Channel: notify.Push, At: start, Read: notify.WasOpened}})[0])
	}
	report()
	stale(t, l, "anna")
	if s := stale(t, l, "anna"); s.Responses == nil || s.Responses.Types[notify.Update].Opened != 1 {
		t.Fatalf("a cached user has the responses %+v", s.Responses)
	}
	// This report comes with a change of the cache's own, so that no conflict has it read.
	for i := range 80 {
		s := stale(t, l, "anna")
		e := ledgertest.Event("anna", notify.Update, start)
		d := ledgertest.Decide(e, s.Version+1, 0, notify.Now, start)
		must.OK(t, l.Commit(ctx, []notify.Change{{User: "anna", Version: s.Version, State: &notify.State{DecidedAt: start}, Decided: []notify.Decided{d}}}, nil)[0])
		if i == 0 {
			must.OK(t, store.Apply(ctx, []notify.Report{{Event: e.ID, Status: notify.Delivered, Channel: notify.Push, At: start, Read: notify.WasOpened}})[0])
		}
	}
	if s := stale(t, l, "anna"); s.Responses == nil || s.Responses.Types[notify.Update].Opened != 2 {
		t.Errorf("after 80 changes the responses are %+v", s.Responses)
	}
}
