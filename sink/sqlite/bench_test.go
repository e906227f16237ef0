package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// BenchmarkSwap measures durable profile writes: 256 profiles of 1536
// components per call, a few ids more with every version.
func BenchmarkSwap(b *testing.B) {
	for _, callers := range []int{1, 4} {
		b.Run(fmt.Sprintf("insert/callers=%d", callers), func(b *testing.B) {
			f := openBench(b)
			var user atomic.Int32
			swapLoop(b, f, callers, func(_ int, batch []*profile.Profile) {
				for i := range batch {
					batch[i] = benchProfile(user.Add(1), 1)
				}
			})
		})
		b.Run(fmt.Sprintf("update/callers=%d", callers), func(b *testing.B) {
			f := openBench(b)
			const users = 4096
			versions := make([]int32, users)
			for user := range users {
				versions[user] = 1
			}
			for batch := range slices.Chunk(seq(users), 256) {
				profiles := make([]*profile.Profile, 0, len(batch))
				for _, user := range batch {
					profiles = append(profiles, benchProfile(user, 1))
				}
				noErrors(b, f.Swap(context.Background(), profiles))
			}
			b.ResetTimer()
			swapLoop(b, f, callers, func(caller int, batch []*profile.Profile) {
				share := users / callers
				for i, k := range rand.Perm(share)[:len(batch)] {
					user := int32(caller*share + k)
					versions[user]++
					batch[i] = benchProfile(user, versions[user])
				}
			})
		})
	}
}

// BenchmarkLoad reads 256 random profiles of 1536 components per call.
func BenchmarkLoad(b *testing.B) {
	f := openBench(b)
	const users = 4096
	for batch := range slices.Chunk(seq(users), 256) {
		profiles := make([]*profile.Profile, 0, len(batch))
		for _, user := range batch {
			profiles = append(profiles, benchProfile(user, 1))
		}
		noErrors(b, f.Swap(context.Background(), profiles))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		ids := make([]int32, 256)
		for i, user := range rand.Perm(users)[:256] {
			ids[i] = int32(user)
		}
		if _, err := f.Load(context.Background(), ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*256/b.Elapsed().Seconds(), "rows/s")
}

func openBench(b *testing.B) *File {
	b.Helper()
	f, err := Open(filepath.Join(b.TempDir(), "bench.db"), Settings{Dimensions: 1536, History: profile.Mass, Model: "m"})
	must.OK(b, err)
	b.Cleanup(func() { _ = f.Close() })
	return f
}

func swapLoop(b *testing.B, f *File, callers int, fill func(caller int, batch []*profile.Profile)) {
	b.ReportAllocs()
	var (
		calls   atomic.Int64
		slowest atomic.Int64
		group   sync.WaitGroup
	)
	for caller := range callers {
		group.Go(func() {
			batch := make([]*profile.Profile, 256)
			for calls.Add(1) <= int64(b.N) {
				fill(caller, batch)
				start := time.Now()
				noErrors(b, f.Swap(context.Background(), batch))
				if took := time.Since(start).Nanoseconds(); took > slowest.Load() {
					slowest.Store(took)
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)*256/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(slowest.Load())/1e6, "max-ms")
}

var benchVector = func() []float64 {
	v := make([]float64, 1536)
	for i := range v {
		v[i] = rand.Float64()
	}
	return v
}()

var benchIDs = make([]profile.AppliedID, 256)

func benchProfile(user, version int32) *profile.Profile {
	return &profile.Profile{
		UserID: user, Version: version, Vector: benchVector, Mass: 3.5, Updated: 1_700_000_000_000,
		LastType: profile.ProductClick, LastID: "c0ffee", EventCount: int64(version),
		History: profile.Mass, Model: "m", CreatedAt: 1, WrittenAt: 2,
		Applied: profile.Applied{}.With(uint64(version), benchIDs[:60+2*version%100], 1, profile.DefaultIDLimits()),
	}
}

func seq(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

func noErrors(tb testing.TB, errs []error) {
	tb.Helper()
	for _, err := range errs {
		if err != nil {
			tb.Error(err)
			return
		}
	}
}
