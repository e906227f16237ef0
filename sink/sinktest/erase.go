package sinktest

import (
	"context"
	"errors"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// testDeletedIsNotRecreated deletes users between the read and the write.
func testDeletedIsNotRecreated(t *testing.T, s Store) {
	for version := int32(1); version <= 3; version++ {
		for v := int32(1); v <= version; v++ {
			s.put(t, s.profile(version, v))
		}
		held := s.load(t, version)
		if err := s.Delete(context.Background(), version); err != nil {
			t.Fatal(err)
		}
		s.swap(t, []error{engine.ErrConflict}, s.successor(held, version, digest(1)))
		s.expect(t, version, nil)
	}
	if err := s.Delete(context.Background(), 99); err != nil {
		t.Errorf("deleting an unknown user: %v", err)
	}
}

// testErasedIsNotRecreated erases users, known and unknown, between the read and
// the write.
func testErasedIsNotRecreated(t *testing.T, s Store) {
	ctx := context.Background()
	for user := int32(1); user <= 4; user++ {
		known := user - 1 // versions written before: 0 is an unknown user
		for v := int32(1); v <= known; v++ {
			s.put(t, s.profile(user, v))
		}
		held := s.load(t, user)
		if err := s.Forget(ctx, user, 42); err != nil {
			t.Fatal(err)
		}
		tombstone := s.load(t, user)
		if !tombstone.Erased() || tombstone.ErasedAt != 42 || tombstone.Version <= known {
			t.Fatalf("after Forget at version %d: %+v", known, tombstone)
		}
		// What was held, and every version that might fit.
		s.swap(t, []error{engine.ErrConflict}, s.successor(held, user, digest(1)))
		for version := int32(1); version <= tombstone.Version+2; version++ {
			s.swap(t, []error{engine.ErrConflict}, s.profile(user, version))
		}
		s.expect(t, user, tombstone)
	}
}

// testForgetIsIdempotent forgets twice: the user was erased the first time.
func testForgetIsIdempotent(t *testing.T, s Store) {
	ctx := context.Background()
	s.put(t, s.profile(1, 1))
	for user := int32(1); user <= 2; user++ {
		if err := s.Forget(ctx, user, 42); err != nil {
			t.Fatal(err)
		}
		first := s.load(t, user)
		if err := s.Forget(ctx, user, 43); err != nil {
			t.Fatal(err)
		}
		again := s.load(t, user)
		if !again.Erased() || again.ErasedAt != first.ErasedAt || again.Version < first.Version {
			t.Errorf("a second Forget made %+v of %+v", again, first)
		}
	}
}

// testForgetRace erases a user among writers that go on until they read the
// tombstone.
func testForgetRace(t *testing.T, s Store) {
	ctx := context.Background()
	for user := int32(1); user <= 5; user++ {
		highest := make([]int32, writers+1)
		together(writers+1, func(i int) {
			if i == writers {
				if err := s.Forget(ctx, user, 42); err != nil {
					t.Errorf("Forget among writers: %v", err)
				}
				return
			}
			highest[i] = addUntilErased(t, s, user, i)
		})
		tombstone := s.load(t, user)
		if !tombstone.Erased() || tombstone.Vector != nil || len(tombstone.Applied.IDs) > 0 {
			t.Fatalf("at the end: %+v, want a tombstone", tombstone)
		}
		for _, version := range highest {
			if tombstone.Version <= version {
				t.Fatalf("tombstone has version %d, after version %d was written", tombstone.Version, version)
			}
		}
	}
}

// addUntilErased adds events to a user until it reads the tombstone, and returns
// the last version it wrote.
func addUntilErased(t *testing.T, s Store, user int32, writer int) (last int32) {
	for n := 0; ; n++ {
		stored, err := s.Load(context.Background(), []int32{user})
		if err != nil {
			t.Errorf("Load: %v", err)
			return last
		}
		if stored[0].Erased() || t.Failed() {
			return last
		}
		next := s.successor(stored[0], user, digest(n*writers+writer))
		switch err := s.Swap(context.Background(), []*profile.Profile{next})[0]; {
		case err == nil:
			last = next.Version
		case !errors.Is(err, engine.ErrConflict):
			t.Errorf("write beside Forget: %v, want success or a conflict", err)
			return last
		}
	}
}
