package sinktest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// testRoundTrip writes profiles at the edges of every field and reads them back.
func testRoundTrip(t *testing.T, s Store) {
	plain := s.profile(1, 1)

	full := s.profile(math.MaxInt32, 1)
	full.LastID = strings.Repeat("x", 200)
	full.EventCount = math.MaxInt64
	full.History, full.Model = profile.UnitMass, "модель/v3"
	full.LastType = profile.ProductPurchase
	limits := profile.DefaultIDLimits()
	for i := range engine.Millis(limits.Keep) {
		ids := []profile.AppliedID{digest(int(i)).ID(), digest(-1 - int(i)).ID()}
		full.Applied = full.Applied.With(math.MaxUint64-uint64(i), ids, 1_700_000_000_000+i, limits)
	}
	full.Applied.Floor = 1_699_999_999_999

	edges := s.profile(2, 1)
	edges.LastID, edges.Model, edges.EventCount, edges.Mass = "", "", 0, 0
	for i, x := range []float64{
		math.Copysign(0, -1), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64,
		math.Float64frombits(0x000FFFFFFFFFFFFF), math.MaxFloat64, -math.MaxFloat64, 1 + 0x1p-52,
	} {
		if i < len(edges.Vector) {
			edges.Vector[i] = x
		}
	}
	tiny := s.profile(3, 1)
	tiny.Mass = math.SmallestNonzeroFloat64

	all := []*profile.Profile{plain, full, edges, tiny}
	s.put(t, all...)
	for _, want := range all {
		s.expect(t, want.UserID, want)
	}

	next := s.profile(math.MaxInt32, 2) // every field shrinks, in an update
	s.put(t, next)
	s.expect(t, math.MaxInt32, next)

	if err := s.Forget(context.Background(), 1, 1_700_000_123_456); err != nil {
		t.Fatal(err)
	}
	s.expect(t, 1, &profile.Profile{UserID: 1, Version: 2, ErasedAt: 1_700_000_123_456})
}

// testLoadAlignment asks for known, unknown and erased users in random orders.
func testLoadAlignment(t *testing.T, s Store) {
	const known, erased = 100, 10
	want := map[int32]*profile.Profile{}
	var batch []*profile.Profile
	for user := int32(1); user <= known; user++ {
		p := s.profile(user*7, 1)
		want[p.UserID] = p
		batch = append(batch, p)
	}
	s.put(t, batch...)
	for user := int32(1); user <= erased; user++ {
		if err := s.Forget(context.Background(), user*7, 5); err != nil {
			t.Fatal(err)
		}
		want[user*7] = &profile.Profile{UserID: user * 7, Version: 2, ErasedAt: 5}
	}
	for _, n := range []int{0, 1, 2, 300, known * 8} {
		users := make([]int32, n)
		for i, user := range rand.Perm(known * 8)[:n] {
			users[i] = int32(user + 1)
		}
		for i, got := range s.loadAll(t, users...) {
			expectEqual(t, got, want[users[i]])
		}
	}
}

// testVersionsOutOfTurn tries every version but the one that is due.
func testVersionsOutOfTurn(t *testing.T, s Store) {
	s.swap(t, []error{engine.ErrConflict}, s.profile(1, 2))
	s.expect(t, 1, nil)
	s.put(t, s.profile(1, 1))
	s.put(t, s.profile(1, 2))
	for _, version := range []int32{1, 2, 4, 5, math.MaxInt32} {
		s.swap(t, []error{engine.ErrConflict}, s.profile(1, version))
		s.expect(t, 1, s.profile(1, 2))
	}
	s.put(t, s.profile(1, 3))
	s.expect(t, 1, s.profile(1, 3))
}

// testPerProfileOutcome mixes inserts and updates that are due with others that
// are not.
func testPerProfileOutcome(t *testing.T, s Store) {
	var (
		batch []*profile.Profile
		want  []error
	)
	for user := int32(1); user <= 60; user++ {
		version := int32(1)
		if user%2 == 0 {
			s.put(t, s.profile(user, 1))
			version = 2
		}
		outcome := error(nil)
		if user%3 == 0 {
			version, outcome = version+1, engine.ErrConflict
		}
		batch, want = append(batch, s.profile(user, version)), append(want, outcome)
	}
	before := make([]*profile.Profile, len(batch))
	for i, p := range batch {
		before[i] = s.load(t, p.UserID)
	}
	s.swap(t, want, batch...)
	for i, p := range batch {
		if want[i] == nil {
			s.expect(t, p.UserID, p)
		} else {
			s.expect(t, p.UserID, before[i])
		}
	}
	if errs := s.Swap(context.Background(), nil); len(errs) != 0 {
		t.Errorf("Swap of nothing returned %v", errs)
	}
}

// testPermanentRejection puts documents no store takes between good ones.
func testPermanentRejection(t *testing.T, s Store) {
	s.put(t, s.profile(2, 1))
	spoil := func(user, version int32, spoil func(*profile.Profile)) *profile.Profile {
		p := s.profile(user, version)
		spoil(p)
		return p
	}
	batch := []*profile.Profile{
		s.profile(1, 1),
		spoil(2, 2, func(p *profile.Profile) { p.Vector[len(p.Vector)-1] = math.NaN() }),
		spoil(2, 2, func(p *profile.Profile) { p.Short.Vector[0] = math.Inf(1) }),
		s.profile(3, 1),
		spoil(4, 1, func(p *profile.Profile) { p.Vector[0] = math.Inf(-1) }),
		spoil(5, 1, func(p *profile.Profile) { p.Vector = append(p.Vector, 0) }),
		spoil(6, 1, func(p *profile.Profile) { p.Vector = nil }),
		s.profile(7, 1),
	}
	for i, err := range s.Swap(context.Background(), batch) {
		user := batch[i].UserID
		if good := user%2 == 1 && user != 5; good {
			if err != nil {
				t.Errorf("user %d beside a rejected one: %v", user, err)
			}
			s.expect(t, user, batch[i])
			continue
		}
		if engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) == "error" {
			t.Errorf("user %d: %v, want a permanent error with a reason", user, err)
		}
		if errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrUnknown) {
			t.Errorf("user %d: a rejection is neither a conflict nor unknown: %v", user, err)
		}
	}
	s.expect(t, 2, s.profile(2, 1))
	s.expect(t, 4, nil)
}

// testDurability expects everything that was acknowledged after a reopening.
func testDurability(t *testing.T, s Store) {
	if s.Reopen == nil {
		t.Skip("nothing outlives this store's process")
	}
	s.put(t, s.profile(1, 1), s.profile(2, 1), s.profile(3, 1))
	s.put(t, s.profile(2, 2))
	if err := s.Forget(context.Background(), 3, 77); err != nil {
		t.Fatal(err)
	}
	s = s.Reopen()
	s.expect(t, 1, s.profile(1, 1))
	s.expect(t, 2, s.profile(2, 2))
	s.expect(t, 3, &profile.Profile{UserID: 3, Version: 2, ErasedAt: 77})
	s.swap(t, []error{nil, engine.ErrConflict}, s.profile(2, 3), s.profile(3, 3))
}
