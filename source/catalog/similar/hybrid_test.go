package similar

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"keyfold/source/catalog/learned"
)

// The space of two spaces is that of the joined vectors, for either kind of texts' vectors, with
// things that lack one of them or both.
func TestHybridEqualsJoinedVectors(t *testing.T) {
	t.Parallel()
	const things, candidates, dimensions, components = 40, 30, 9, 4
	r := rand.New(rand.NewPCG(4, 4))
	vectors := func(n, size int) (all [][]float32) {
		for i := range things {
			var v []float32
			if i < n && r.IntN(4) > 0 {
				v = make([]float32, size)
				for k := range v {
					v[k] = float32(r.NormFloat64())
				}
			}
			all = append(all, v)
		}
		return all
	}
	for _, share := range []float64{0, 0.3, 1} {
		texts, own := vectors(things, dimensions), vectors(candidates, components)
		var joined [][]float32
		for i := range texts {
			joined = append(joined, learned.Join(texts[i], own[i], dimensions, components, share))
		}
		want := NewDense(joined, dimensions+components, candidates)
		for name, text := range map[string]Part{"dense": NewDense(texts, dimensions, candidates), "sparse": NewSparse(texts, dimensions, candidates)} {
			got := NewHybrid(text, NewDense(own, components, candidates), things, candidates, share)
			for i := range int32(things) {
				if (got.Row(i) == nil) != (want.Row(i) == nil) {
					t.Fatalf("%s, share %v: thing %d has %v, want %v", name, share, i, got.Row(i), want.Row(i))
				}
				if floats.Distance(append([]float64{0}, got.Row(i)...), append([]float64{0}, want.Row(i)...), math.Inf(1)) > 1e-6 {
					t.Errorf("%s, share %v: row %d is %v, want %v", name, share, i, got.Row(i), want.Row(i))
				}
				sum, other := make([]float64, got.Dimensions()), make([]float64, want.Dimensions())
				if want.Row(i) == nil {
					continue
				}
				got.Add(sum, 2, i)
				want.Add(other, 2, i)
				if floats.Distance(sum, other, math.Inf(1)) > 1e-6 || math.Abs(got.Dot(sum, i)-2) > 1e-6 {
					t.Errorf("%s, share %v: thing %d adds %v, want %v", name, share, i, sum, other)
				}
			}
		}
	}
}
