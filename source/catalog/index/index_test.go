package index

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// An index answers as a loop over all products does, whatever was put in, changed and
// taken out before.
//
// Promise(recommend/exact-search): The search over up to 5,000 products finds the nearest ones, whatever was added, changed and removed before.
func TestSearchEqualsALoop(t *testing.T) {
	const dimensions = 8
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x, model := New(dimensions, "m"), map[int32]profile.Product{}
		for range rapid.IntRange(0, 3*blockRows).Draw(t, "changes") {
			id := int32(1 + random.IntN(2*blockRows))
			switch random.IntN(4) {
			case 0:
				x.Remove(id)
				delete(model, id)
			default:
				p := profile.Product{ID: id, Name: fmt.Sprint("name ", random.IntN(9)), Category: string(rune('a' + random.IntN(3))), Vector: vectorOf(random, dimensions)}
				if random.IntN(20) == 0 {
					p.Model = "another"
				}
				x.Put(p)
				delete(model, id)
				if p.Model == "" {
					model[id] = p
				}
			}
		}
		if x.Len() != len(model) {
			t.Fatalf("%d products, want %d", x.Len(), len(model))
		}
		q := Query{K: rapid.IntRange(0, 30).Draw(t, "k"), Category: rapid.SampledFrom([]string{"", "a", "z"}).Draw(t, "category"), Skip: map[int32]bool{}}
		for range random.IntN(50) {
			q.Skip[int32(1+random.IntN(2*blockRows))] = true
		}
		for _, c := range vectorOf(random, dimensions) {
			q.Vector = append(q.Vector, float64(c))
		}
		got, want := x.Search(q), slow(model, q, dimensions)
		if !slices.EqualFunc(got, want, func(a, b Found) bool { return a.Item == b.Item && abs(a.Score-b.Score) < 1e-6 }) {
			t.Fatalf("%+v\n%+v\nwant\n%+v", q, got, want)
		}
	})
}

func abs(x float64) float64 { return max(x, -x) }

// vectorOf has components that make equal scores rare.
func vectorOf(random *rand.Rand, dimensions int) []float32 {
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(random.NormFloat64())
	}
	return v
}

func slow(model map[int32]profile.Product, q Query, dimensions int) (all []Found) {
	for id, p := range model {
		if q.Skip[id] || q.Category != "" && p.Category != q.Category {
			continue
		}
		unit, err := engine.Unit(p.Vector, dimensions)
		if err != nil {
			panic(err)
		}
		score := 0.0
		for i, c := range unit {
			score += c * q.Vector[i]
		}
		all = append(all, Found{Item{p.ID, p.Name, p.Category}, score})
	}
	slices.SortFunc(all, func(a, b Found) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return all[:min(len(all), q.K)]
}

// Equal products are found by their ids, in every order in which they came.
func TestEqualScoresGoByID(t *testing.T) {
	for _, ids := range [][]int32{{1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1}, {4, 7, 1, 2, 6, 3, 5}} {
		x := New(1, "m")
		for _, id := range ids {
			x.Put(profile.Product{ID: id, Vector: []float32{1}})
		}
		if got := x.Search(Query{Vector: []float64{1}, K: 2}); len(got) != 2 || got[0].ID != 1 || got[1].ID != 2 {
			t.Errorf("%v: %v", ids, got)
		}
	}
}

// What cannot be found is not there: another model, another length, no direction.
func TestUnusableProductsGo(t *testing.T) {
	x := New(2, "m")
	good := profile.Product{ID: 1, Vector: []float32{1, 0}, Model: "m"}
	for _, bad := range []profile.Product{
		{ID: 1}, {ID: 1, Vector: []float32{1}}, {ID: 1, Vector: []float32{0, 0}}, {ID: 1, Vector: []float32{1, 0}, Model: "another"},
	} {
		if n := x.Put(good, bad); n != 1 || x.Len() != 0 {
			t.Errorf("%+v: %d unusable, %d there", bad, n, x.Len())
		}
		if _, _, found := x.Product(1); found {
			t.Errorf("%+v is found", bad)
		}
	}
}

// A stream replaces what is there, and one that ends with an error takes nothing out.
func TestFill(t *testing.T) {
	away := errors.New("away")
	shared := []float32{0, 0} // the stream's own, used again for each product
	stream := func(err error, ids ...int32) iter.Seq2[profile.Product, error] {
		return func(yield func(profile.Product, error) bool) {
			for _, id := range ids {
				shared[0], shared[1] = float32(id), 1
				if !yield(profile.Product{ID: id, Vector: shared}, nil) {
					return
				}
			}
			if err != nil {
				yield(profile.Product{}, err)
			}
		}
	}
	x := New(2, "m")
	fill := func(want []int32, err error, ids ...int32) {
		t.Helper()
		if _, got := x.Fill(stream(err, ids...)); !errors.Is(got, err) {
			t.Errorf("%v: %v", ids, got)
		}
		if got := slices.Sorted(maps.Keys(x.rows)); !slices.Equal(got, want) {
			t.Errorf("%v: %v", ids, got)
		}
	}
	fill([]int32{1, 2, 3}, nil, 1, 2, 3)
	fill([]int32{1, 2, 3, 9}, away, 9)
	fill([]int32{2, 4}, nil, 2, 4)
	if _, v, _ := x.Product(4); abs(v[0]/v[1]-4) > 1e-6 {
		t.Errorf("product 4: %v", v)
	}
}

// Searches run beside changes.
func TestSearchesBesideChanges(t *testing.T) {
	x := New(16, "m")
	var work sync.WaitGroup
	for worker := range uint64(4) {
		work.Go(func() {
			random := rand.New(rand.NewPCG(worker, 1))
			for range 500 {
				id := int32(1 + random.IntN(700))
				x.Put(profile.Product{ID: id, Category: "c", Vector: vectorOf(random, 16)})
				x.Remove(int32(1 + random.IntN(700)))
				found := x.Search(Query{Vector: make([]float64, 16), K: 5})
				if len(found) > 5 {
					t.Errorf("%d found", len(found))
				}
			}
		})
	}
	work.Wait()
	if x.Len() != len(x.rows) || len(x.blocks) != (x.Len()+blockRows-1)/blockRows {
		t.Errorf("%d products, %d rows, %d blocks", x.Len(), len(x.rows), len(x.blocks))
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, products := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(products), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 1))
			x := New(1536, "m")
			for id := range int32(products) {
				x.Put(profile.Product{ID: id + 1, Vector: vectorOf(random, 1536)})
			}
			q := Query{K: 10, Vector: make([]float64, 1536)}
			for i := range q.Vector {
				q.Vector[i] = random.NormFloat64()
			}
			for b.Loop() {
				x.Search(q)
			}
		})
	}
}
