package sinktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
)

const writers = 16

// testInsertRace has all writers insert the same user: one wins.
func testInsertRace(t *testing.T, s Store) {
	for user := int32(1); user <= 10; user++ {
		insertRace(t, s, user)
	}
}

// testInsertRaceOfMany is the same race with many users per call, each writer in
// its own order.
func testInsertRaceOfMany(t *testing.T, s Store) { insertRace(t, s, numbered(50)...) }

// numbered returns the users 1 to n.
func numbered(n int) []int32 {
	users := make([]int32, n)
	for i := range users {
		users[i] = int32(i + 1)
	}
	return users
}

func insertRace(t *testing.T, s Store, users ...int32) {
	won := make([]atomic.Int32, len(users))
	winner := make([]atomic.Pointer[profile.Profile], len(users))
	together(writers, func(i int) {
		order := rand.Perm(len(users))
		batch := make([]*profile.Profile, len(users))
		for k, at := range order {
			batch[k] = s.successor(nil, users[at], digest(i))
		}
		for k, err := range s.Swap(context.Background(), batch) {
			switch {
			case err == nil:
				won[order[k]].Add(1)
				winner[order[k]].Store(batch[k])
			case !errors.Is(err, engine.ErrConflict):
				t.Errorf("insert beside others: %v, want a conflict", err)
			}
		}
	})
	for i, user := range users {
		if n := won[i].Load(); n != 1 {
			t.Fatalf("%d of %d inserts of user %d succeeded", n, writers, user)
		}
		s.expect(t, user, winner[i].Load())
	}
}

// testUpdateRace has all writers add to one user.
func testUpdateRace(t *testing.T, s Store) { addRace(t, s, []int32{1}, 15) }

// testUpdateRaceOfMany has all writers add to many users per call, where some
// conflict and others must go through.
func testUpdateRaceOfMany(t *testing.T, s Store) { addRace(t, s, numbered(50), 3) }

// addRace lets every writer write each user times over, by reading, modifying,
// and retrying after conflicts, and expects that no write was lost or doubled.
func addRace(t *testing.T, s Store, users []int32, times int) {
	together(writers, func(i int) {
		for n := range times {
			addOnce(t, s, users, digest(i*times+n))
		}
	})
	want := int64(writers * times)
	for _, p := range s.loadAll(t, users...) {
		if p == nil || int64(p.Version) != want || p.EventCount != want || int64(len(p.Applied.IDs)) != want {
			t.Fatalf("got %+v, want version, events and ids to be %d", p, want)
		}
		seen := map[profile.AppliedID]bool{}
		for _, id := range p.Applied.IDs {
			if seen[id] {
				t.Fatalf("user %d: a write was applied twice", p.UserID)
			}
			seen[id] = true
		}
	}
}

// addOnce adds one event to each user, however many attempts it takes. Of all
// writers' attempts at a user one succeeds, so it ends.
func addOnce(t *testing.T, s Store, users []int32, d profile.Digest) {
	left := users
	for len(left) > 0 {
		stored, err := s.Load(context.Background(), left)
		if err != nil {
			t.Errorf("Load: %v", err)
			return
		}
		batch := make([]*profile.Profile, len(left))
		for k, user := range left {
			batch[k] = s.successor(stored[k], user, d)
		}
		var conflicts []int32
		for k, err := range s.Swap(context.Background(), batch) {
			switch {
			case errors.Is(err, engine.ErrConflict):
				conflicts = append(conflicts, batch[k].UserID)
			case err != nil:
				t.Errorf("update beside others: %v, want success or a conflict", err)
				return
			}
		}
		left = conflicts
	}
}
