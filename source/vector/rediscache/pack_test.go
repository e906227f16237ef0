package rediscache

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPackIsExact(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		vector := rapid.SliceOfN(rapid.Float32Range(-1e18, 1e18), 1, 50).Draw(r, "vector")
		got := unpack(string(pack(vector)), len(vector))
		var sum float64
		for _, c := range vector {
			sum += float64(c) * float64(c)
		}
		if sum == 0 {
			if got != nil {
				r.Fatalf("a zero vector came back")
			}
			return
		}
		if !slices.EqualFunc(got, vector, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			r.Fatalf("%v became %v", vector, got)
		}
	})
}

func TestLifetimeIsWithinATenth(t *testing.T) {
	c := &Cache{config: Config{TTL: 100 * time.Second}}
	low, high := time.Hour, time.Duration(0)
	for range 10_000 {
		d := c.lifetime()
		low, high = min(low, d), max(high, d)
	}
	if low < 90*time.Second || low > 91*time.Second || high > 110*time.Second || high < 109*time.Second {
		t.Errorf("from %v to %v", low, high)
	}
}

func BenchmarkPack(b *testing.B) {
	vector := make([]float32, 1536)
	b.SetBytes(4 * 1536)
	b.ReportAllocs()
	for b.Loop() {
		pack(vector)
	}
}

func BenchmarkUnpack(b *testing.B) {
	vector := make([]float32, 1536)
	vector[7] = 1
	packed := string(pack(vector))
	b.SetBytes(4 * 1536)
	b.ReportAllocs()
	for b.Loop() {
		if unpack(packed, 1536) == nil {
			b.Fatal("unusable")
		}
	}
}
