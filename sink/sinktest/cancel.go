package sinktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// testEndedContext writes with a context that has ended already.
func testEndedContext(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Load(ctx, []int32{1}); !errors.Is(err, context.Canceled) {
		t.Errorf("Load: %v, want the context's error", err)
	}
	for _, err := range s.Swap(ctx, []*profile.Profile{s.profile(1, 1), s.profile(2, 1)}) {
		if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrConflict) {
			t.Errorf("Swap: %v, want a transient error", err)
		}
	}
	if err := s.Forget(ctx, 3, 42); err == nil {
		t.Error("Forget with an ended context succeeded")
	}
	s.expect(t, 1, nil)
}

// testCancelledWrites cancels writes at random moments and compares the answers
// with the ids found in the end: a success is there, a failure is not, and only
// what was called unknown may be either.
func testCancelledWrites(t *testing.T, s Store) {
	const users, rounds = 4, 40
	answers := make([][]answer, writers)
	together(writers, func(i int) {
		for n := range rounds {
			answers[i] = append(answers[i], cancelled(t, s, users, digest(i*rounds+n))...)
		}
	})
	// A write whose answer was unknown may be under way still; what it was made
	// for is gone once another write of that user has succeeded.
	addOnce(t, s, numbered(users), digest(writers*rounds))
	for _, a := range slices.Concat(answers...) {
		ids := s.load(t, a.user).Applied.IDs
		found := slices.Contains(ids, a.digest.ID())
		switch {
		case a.err == nil && !found:
			t.Errorf("user %d: an acknowledged write is missing", a.user)
		case a.err != nil && found && !errors.Is(a.err, engine.ErrUnknown):
			t.Errorf("user %d: a write is there that was answered with %v", a.user, a.err)
		}
	}
}

// answer is what became of one write, by the store's word.
type answer struct {
	user   int32
	digest profile.Digest
	err    error
}

// cancelled writes all users in one call, which it cancels at a random moment.
func cancelled(t *testing.T, s Store, users int, d profile.Digest) (answers []answer) {
	all := numbered(users)
	stored := s.loadAll(t, all...)
	batch := make([]*profile.Profile, users)
	for i, user := range all {
		batch[i] = s.successor(stored[i], user, d)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.Int64N(int64(3*time.Millisecond))))
	defer cancel()
	for i, err := range s.Swap(ctx, batch) {
		answers = append(answers, answer{all[i], d, err})
	}
	return answers
}
