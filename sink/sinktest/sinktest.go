package sinktest

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Store is a store under test.
type Store struct {
	profile.Profiles
	profile.Eraser
	// Delete removes a user's document behind the store's back, as an
	// administrator would; an unknown user is none of its concern.
	Delete func(ctx context.Context, user int32) error
	// Reopen closes the store and opens it anew with what is durable. It is nil
	// where nothing outlives the process. It may be called once.
	Reopen func() Store
	// Dimensions is the length of the vectors the store takes.
	Dimensions int
}

// Run holds the store that open returns against the contracts. Each test opens
// its own, empty; open registers the closing with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"RoundTrip", testRoundTrip},
		{"LoadAlignment", testLoadAlignment},
		{"VersionsOutOfTurn", testVersionsOutOfTurn},
		{"PerProfileOutcome", testPerProfileOutcome},
		{"PermanentRejection", testPermanentRejection},
		{"InsertRace", testInsertRace},
		{"InsertRaceOfMany", testInsertRaceOfMany},
		{"UpdateRace", testUpdateRace},
		{"UpdateRaceOfMany", testUpdateRaceOfMany},
		{"DeletedIsNotRecreated", testDeletedIsNotRecreated},
		{"ErasedIsNotRecreated", testErasedIsNotRecreated},
		{"ForgetIsIdempotent", testForgetIsIdempotent},
		{"ForgetRace", testForgetRace},
		{"EndedContext", testEndedContext},
		{"CancelledWrites", testCancelledWrites},
		{"Durability", testDurability},
		{"Model", testModel},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// RoundTrip is the one test of [Run] that depends on the size of the vectors,
// for stores that run the others with short ones.
func RoundTrip(t *testing.T, s Store) { testRoundTrip(t, s) }

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// profile returns a profile whose every field depends on user and version.
func (s Store) profile(user, version int32) *profile.Profile {
	p := &profile.Profile{
		UserID: user, Version: version, Vector: make([]float64, s.Dimensions),
		Mass: float64(version) + 0.1, Updated: engine.Millis(1_700_000_000_000 + int64(version)),
		LastType: profile.EventTypes()[int(version)%len(profile.EventTypes())], LastID: strings.Repeat("é", int(version)%70),
		EventCount: int64(version), History: profile.Mass, Model: "text-embedding-3-small",
		CreatedAt: 1_700_000_000_001, WrittenAt: engine.Millis(1_700_000_000_002 + int64(version)),
	}
	if user%2 == 0 { // they never go, but with the profile
		p.Marks = profile.Marks{{Stream: 1 << 8, Next: uint64(version)}, {
			Stream: 2<<8 | 1<<1, Next: math.MaxUint64 - 1, Holes: []uint64{uint64(version), math.MaxUint64 - 2}, Beyond: []uint64{math.MaxUint64},
		}}
	}
	for i := range p.Vector {
		p.Vector[i] = math.Sin(float64(user) + float64(version)*float64(i+1))
	}
	if version%3 != 0 { // what the version before had goes
		p.Short = profile.Short{Vector: slices.Clone(p.Vector), Mass: 1 / float64(version), HalfLife: time.Duration(version) * time.Second}
		slices.Reverse(p.Short.Vector)
	} else {
		p.DropShort = true
	}
	return p
}

// successor returns the next version of p, with digest added to its ids.
func (s Store) successor(p *profile.Profile, user int32, digest profile.Digest) *profile.Profile {
	if p == nil {
		p = &profile.Profile{UserID: user}
	}
	next := s.profile(user, p.Version+1)
	next.EventCount = p.EventCount + 1
	next.Applied = p.Applied.With(rand.Uint64(), []profile.AppliedID{digest.ID()}, next.WrittenAt, profile.DefaultIDLimits())
	return next
}

// digest returns the n-th of many different digests.
func digest(n int) (d profile.Digest) {
	binary.LittleEndian.PutUint64(d[:], uint64(n)+1)
	return d
}

// load returns one user's document.
func (s Store) load(t failer, user int32) *profile.Profile {
	t.Helper()
	return s.loadAll(t, user)[0]
}

func (s Store) loadAll(t failer, users ...int32) []*profile.Profile {
	t.Helper()
	profiles, err := s.Load(context.Background(), users)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if len(profiles) != len(users) {
		t.Fatalf("Load of %d users returned %d profiles", len(users), len(profiles))
	}
	return profiles
}

// swap writes profiles and expects these outcomes; nil for success.
func (s Store) swap(t failer, want []error, profiles ...*profile.Profile) {
	t.Helper()
	for i, err := range s.Swap(context.Background(), profiles) {
		if !errors.Is(err, want[i]) || (err == nil) != (want[i] == nil) {
			t.Fatalf("Swap of user %d to version %d: %v, want %v", profiles[i].UserID, profiles[i].Version, err, want[i])
		}
	}
}

// put writes profiles of which none may fail.
func (s Store) put(t failer, profiles ...*profile.Profile) {
	t.Helper()
	s.swap(t, make([]error, len(profiles)), profiles...)
}

// expect compares one user's document with want, to the last bit.
func (s Store) expect(t failer, user int32, want *profile.Profile) {
	t.Helper()
	expectEqual(t, s.load(t, user), want)
}

func expectEqual(t failer, got, want *profile.Profile) {
	t.Helper()
	if got == nil || want == nil {
		if got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		return
	}
	if !slices.EqualFunc(got.Vector, want.Vector, sameBits) {
		t.Fatalf("user %d: vector came back as %v, want %v", want.UserID, got.Vector, want.Vector)
	}
	if !slices.Equal(got.Applied.IDs, want.Applied.IDs) || !slices.Equal(got.Applied.Groups, want.Applied.Groups) {
		t.Fatalf("user %d: %d ids came back, want the same %d", want.UserID, len(got.Applied.IDs), len(want.Applied.IDs))
	}
	if !slices.EqualFunc(got.Short.Vector, want.Short.Vector, sameBits) {
		t.Fatalf("user %d: the second vector came back as %v, want %v", want.UserID, got.Short.Vector, want.Short.Vector)
	}
	g, w := *got, *want
	g.Vector, w.Vector, g.Short.Vector, w.Short.Vector = nil, nil, nil, nil
	g.DropShort, w.DropShort = false, false // it is not stored
	g.Applied, w.Applied = profile.Applied{Floor: g.Applied.Floor}, profile.Applied{Floor: w.Applied.Floor}
	if !sameBits(g.Mass, w.Mass) || !reflect.DeepEqual(g, w) {
		t.Fatalf("got %+v, want %+v", g, w)
	}
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// together runs f(0..n-1) on goroutines that start at the same moment.
func together(n int, f func(i int)) {
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	group.Wait()
}
