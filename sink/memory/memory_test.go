package memory

import (
	"context"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(dimensions int) func(*testing.T) sinktest.Store {
	return func(*testing.T) sinktest.Store {
		p := New(dimensions)
		remove := func(_ context.Context, user int32) error {
			p.Delete(user)
			return nil
		}
		return sinktest.Store{Profiles: p, Eraser: p, Delete: remove, Dimensions: dimensions}
	}
}

func TestConformance(t *testing.T) { sinktest.Run(t, open(8)) }

func TestRoundTripOfLongVectors(t *testing.T) { sinktest.RoundTrip(t, open(1536)(t)) }

// profiles returns n first versions of as many users.
func profiles(n, dimensions int) []*profile.Profile {
	all := make([]*profile.Profile, n)
	for i := range all {
		all[i] = &profile.Profile{UserID: int32(i + 1), Version: 1, Vector: make([]float64, dimensions)}
	}
	return all
}

func TestKeepsThePointers(t *testing.T) {
	s := New(4)
	all := profiles(3, 4)
	s.Swap(context.Background(), all)
	loaded, err := s.Load(context.Background(), []int32{3, 1, 2})
	if err != nil || !slices.Equal(loaded, []*profile.Profile{all[2], all[0], all[1]}) {
		t.Errorf("Load returned %v, %v", loaded, err)
	}
}

func TestAll(t *testing.T) {
	s := New(4)
	s.Swap(context.Background(), profiles(1000, 4))
	must.OK(t, s.Forget(context.Background(), 5, 42))
	s.Delete(7)
	var users []int32
	for p := range s.All() {
		users = append(users, p.UserID)
		s.Delete(p.UserID) // the loop's body may use the store
	}
	slices.Sort(users)
	if len(users) != 999 || slices.Contains(users, 7) || len(slices.Compact(users)) != 999 {
		t.Errorf("All yielded %d users", len(users))
	}
	if n := s.Len(); n != 0 {
		t.Errorf("%d documents are left", n)
	}
	s.Swap(context.Background(), profiles(10, 4))
	for range s.All() {
		break
	}
	if n := s.Len(); n != 10 {
		t.Errorf("Len is %d, want 10", n)
	}
}

func TestSwapAllocatesOnlyItsAnswer(t *testing.T) {
	s := New(16)
	generations := [2][]*profile.Profile{profiles(256, 16), profiles(256, 16)}
	s.Swap(context.Background(), generations[0])
	version := int32(1)
	allocs := testing.AllocsPerRun(50, func() {
		version++
		next := generations[(version+1)%2]
		for _, p := range next {
			p.Version = version // two versions old, so nobody reads it
		}
		if errs := s.Swap(context.Background(), next); errs[0] != nil {
			t.Fatal(errs[0])
		}
	})
	if allocs > 1 {
		t.Errorf("a Swap of 256 profiles allocated %v times, want once", allocs)
	}
}

func BenchmarkSwap(b *testing.B) {
	const dimensions = 1536
	s := New(dimensions)
	generations := [2][]*profile.Profile{profiles(256, dimensions), profiles(256, dimensions)}
	s.Swap(context.Background(), generations[0])
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		next := generations[(n+1)%2]
		for _, p := range next {
			p.Version = int32(n + 2)
		}
		if errs := s.Swap(context.Background(), next); errs[0] != nil {
			b.Fatal(errs[0])
		}
	}
	b.ReportMetric(float64(b.N)*256/b.Elapsed().Seconds(), "rows/s")
}

func TestPositions(t *testing.T) { sinktest.Positions(t, New(8)) }
