package catalog_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog"
)

// stream yields products in one buffer, as a store's cursor might.
func stream(products []profile.Product) iter.Seq2[profile.Product, error] {
	return func(yield func(profile.Product, error) bool) {
		var buffer []float32
		for _, p := range products {
			buffer = append(buffer[:0], p.Vector...)
			p.Vector = buffer
			if !yield(p, nil) {
				return
			}
		}
	}
}

func TestNearestEqualsASort(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dimensions := rapid.IntRange(1, 9).Draw(r, "dimensions")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		vector := func(n int) []float32 {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(random.NormFloat64())
			}
			return v
		}
		unit, err := engine.Unit(vector(dimensions), dimensions)
		must.OK(r, err)
		products := make([]profile.Product, rapid.IntRange(0, 60).Draw(r, "products"))
		for i := range products {
			products[i] = profile.Product{ID: int32(len(products) - i), Name: "x", Vector: vector(dimensions)}
			switch random.IntN(9) {
			case 0:
				products[i].Vector = vector(dimensions + 1)
			case 1:
				products[i].Vector = nil
			case 2:
				products[i].Vector = make([]float32, dimensions)
			case 3:
				products[i].Vector[0] = float32(math.NaN())
			case 4:
				products[i].Vector[0] = float32(math.Inf(1))
			case 5:
				products[i].Vector = products[random.IntN(i+1)].Vector // a tie
			}
		}
		k := rapid.IntRange(-1, 70).Draw(r, "k")
		other, err := engine.Unit(vector(dimensions), dimensions)
		must.OK(r, err)
		got, err := catalog.Nearest(t.Context(), [][]float64{unit, other}, k, stream(products[:len(products)/3]), stream(products[len(products)/3:]))
		must.OK(r, err)
		compareWithSort(r, unit, products, k, got[0])
		compareWithSort(r, other, products, k, got[1])
	})
}

// compareWithSort checks an answer against a sort of all usable products. The
// two round differently, so that products nearer to each other than that may
// stand in another order.
func compareWithSort(r *rapid.T, unit []float64, products []profile.Product, k int, got []catalog.Neighbour) {
	const rounding = 1e-12
	cosines := map[int32]float64{}
	for _, p := range products {
		v, err := engine.Unit(p.Vector, len(unit))
		if err == nil {
			cosines[p.ID] = floats.Dot(v, unit)
		}
	}
	sorted := slices.Sorted(maps.Values(cosines))
	slices.Reverse(sorted)
	if len(got) != max(0, min(k, len(sorted))) {
		r.Fatalf("%d neighbours of %d, asked for %d", len(got), len(sorted), k)
	}
	for i, n := range got {
		own, usable := cosines[n.Product.ID]
		if !usable || math.Abs(n.Cosine-own) > rounding || math.Abs(n.Cosine-sorted[i]) > rounding {
			r.Fatalf("neighbour %d is %+v, want cosine %v", i, n, sorted[i])
		}
		if n.Product.Name != "x" || n.Product.Vector != nil {
			r.Fatalf("neighbour %d: %+v", i, n.Product)
		}
		delete(cosines, n.Product.ID) // it may stand there once
		if i > 0 && (n.Cosine > got[i-1].Cosine || n.Cosine == got[i-1].Cosine && n.Product.ID < got[i-1].Product.ID) {
			r.Fatalf("neighbours %d and %d are out of order: %+v", i-1, i, got)
		}
	}
}

func TestNearestPutsEqualOnesByID(t *testing.T) {
	var products []profile.Product
	for _, id := range []int32{5, 2, 9, 1, 7} {
		products = append(products, profile.Product{ID: id, Vector: []float32{3, 4}})
	}
	got, err := catalog.Nearest(t.Context(), [][]float64{{1, 0}}, 3, stream(products))
	must.OK(t, err)
	for i, want := range []int32{1, 2, 5} {
		if got[0][i].Product.ID != want || got[0][i].Cosine != 0.6 {
			t.Errorf("neighbour %d: %+v, want product %d", i, got[0][i], want)
		}
	}
}

func TestNearestEndsWithItsStreamAndContext(t *testing.T) {
	broken := errors.New("cursor lost")
	products := func(yield func(profile.Product, error) bool) {
		_ = yield(profile.Product{ID: 1, Vector: []float32{1}}, nil) && yield(profile.Product{}, broken)
	}
	if got, err := catalog.Nearest(t.Context(), [][]float64{{1}}, 3, products); !errors.Is(err, broken) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := catalog.Nearest(ctx, [][]float64{{1}}, 3, products); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func BenchmarkNearest(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	products := make([]profile.Product, 1000)
	for i := range products {
		vector := make([]float32, 1536)
		for j := range vector {
			vector[j] = float32(random.NormFloat64())
		}
		products[i] = profile.Product{ID: int32(i + 1), Vector: vector}
	}
	unit, err := engine.Unit(products[0].Vector, 1536)
	must.OK(b, err)
	all := func(yield func(profile.Product, error) bool) {
		for _, p := range products {
			if !yield(p, nil) {
				return
			}
		}
	}
	for b.Loop() {
		if _, err := catalog.Nearest(b.Context(), [][]float64{unit}, 10, all); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(len(products)*b.N), "ns/product")
}
