package index

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// withCodes returns an index that searches by codes above so many products, and looks at as
// many whose codes are most like the query's.
func withCodes(dimensions, few int) *Index {
	x := New(dimensions, "m")
	x.exact, x.candidates = few, few
	return x
}

// named returns products with names like a shop's and the vectors of the names. One of ten
// has another's name.
func named(tb testing.TB, random *rand.Rand, first, n int32, dimensions int) (all []profile.Product) {
	hash, err := vector.NewHash(dimensions)
	must.OK(tb, err)
	things := sample.Products()
	for id := first; id < first+n; id++ {
		p := things[random.IntN(len(things))]
		p.ID = id
		p.Name = fmt.Sprintf("%s %c%c%c %d", p.Name, 'a'+random.IntN(26), 'a'+random.IntN(26), 'a'+random.IntN(26), random.IntN(100))
		if len(all) > 0 && random.IntN(10) == 0 {
			other := all[random.IntN(len(all))]
			p.Name, p.Category = other.Name, other.Category
		}
		vectors, err := hash.Embed(context.Background(), []string{p.Name})
		must.OK(tb, err)
		p.Vector = vectors[0]
		all = append(all, p)
	}
	return all
}

// recall returns the share of the nearest products that searches find, over mixes of some
// products. One that is as near as the last of the nearest counts.
func recall(t *testing.T, x *Index, random *rand.Rand, filter Query) float64 {
	t.Helper()
	hits, wanted := 0, 0
	ids := slices.Sorted(maps.Keys(x.rows))
	for range 100 {
		q := filter
		q.Vector, q.K = make([]float64, x.dimensions), 10
		for range 1 + random.IntN(5) {
			_, v, _ := x.Product(ids[random.IntN(len(ids))])
			for i, c := range v {
				q.Vector[i] += c
			}
		}
		found := x.Search(q)
		q.Exact = true
		exact := x.Search(q)
		wanted += len(exact)
		for _, f := range found {
			if q.Category != "" && f.Category != q.Category || q.Skip[f.ID] {
				t.Fatalf("%+v is not asked for", f)
			}
			if f.Score >= exact[len(exact)-1].Score-1e-9 {
				hits++
			}
		}
	}
	return float64(hits) / float64(wanted)
}

// Codes lead to nearly all of the nearest products, with filters too, and after half of
// the products were removed and replaced by others.
//
// Promise(recommend/recall): Above 5,000 products, with vectors of names, the search finds 98 of 100 of the nearest ones, with filters too, also after half were replaced.
func TestRecall(t *testing.T) {
	const dimensions, n, few = 256, 2000, 60
	random := rand.New(rand.NewPCG(1, 2))
	x := withCodes(dimensions, few)
	x.Put(named(t, random, 1, n, dimensions)...)
	judge := func(when string) {
		skip := map[int32]bool{}
		for range 300 {
			skip[random.Int32N(2*n)] = true
		}
		for _, filter := range []Query{{}, {Category: "Home/Garden"}, {Skip: skip}, {Category: "Books/Fiction", Skip: skip}} {
			if got := recall(t, x, random, filter); got < 0.98 {
				t.Errorf("%s, category %q, %d skipped: recall %.3f", when, filter.Category, len(filter.Skip), got)
			}
		}
	}
	judge("built")
	for id := range int32(n) {
		if id%2 == 0 {
			x.Remove(id + 1)
		}
	}
	judge("half removed")
	x.Put(named(t, random, n+1, n/2, dimensions)...)
	judge("others added")
	x.Put(named(t, random, n+1, n/2, dimensions)...)
	judge("those changed")
}

// What was removed is not found, nothing is found twice, and a search for as many products
// as there are finds all that the filter leaves, whatever was put in and taken out.
func TestCodesAfterChanges(t *testing.T) {
	const dimensions, ids = 4, 150
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x, there := withCodes(dimensions, 5), map[int32]string{}
		few := [][]float32{vectorOf(random, dimensions), vectorOf(random, dimensions)} // for products alike
		for range rapid.IntRange(0, 600).Draw(t, "changes") {
			id := 1 + random.Int32N(ids)
			switch random.IntN(40) {
			case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13:
				x.Remove(id)
				delete(there, id)
			case 14:
				keep := map[int32]bool{}
				maps.DeleteFunc(there, func(id int32, _ string) bool { keep[id] = random.IntN(3) > 0; return !keep[id] })
				x.Keep(keep)
			default:
				p := profile.Product{ID: id, Category: string(rune('a' + random.IntN(3))), Vector: vectorOf(random, dimensions)}
				if random.IntN(3) == 0 {
					p.Vector = few[random.IntN(2)]
				}
				x.Put(p)
				there[id] = p.Category
			}
		}
		q := Query{K: rapid.IntRange(1, 2*ids).Draw(t, "k"), Category: rapid.SampledFrom([]string{"", "a"}).Draw(t, "category"), Skip: map[int32]bool{3: true, 7: true}}
		for range dimensions {
			q.Vector = append(q.Vector, random.NormFloat64())
		}
		want := map[int32]bool{}
		for id, category := range there {
			if !q.Skip[id] && (q.Category == "" || q.Category == category) {
				want[id] = true
			}
		}
		got := x.Search(q)
		seen := map[int32]bool{}
		for _, f := range got {
			if !want[f.ID] || seen[f.ID] || f.Category != there[f.ID] {
				t.Fatalf("%+v is not to be found, or found twice", f)
			}
			seen[f.ID] = true
		}
		if len(got) != min(q.K, len(want)) {
			t.Fatalf("%d found of %d, %d asked for", len(got), len(want), q.K)
		}
	})
}

// Searches by codes run beside changes.
func TestCodesBesideChanges(t *testing.T) {
	const dimensions, ids = 16, 700
	x := withCodes(dimensions, 100)
	var work sync.WaitGroup
	for worker := range uint64(4) {
		work.Go(func() {
			random := rand.New(rand.NewPCG(worker, 1))
			for range 500 {
				x.Put(profile.Product{ID: 1 + random.Int32N(ids), Category: "c", Vector: vectorOf(random, dimensions)})
				x.Remove(1 + random.Int32N(ids))
				query := make([]float64, dimensions)
				query[0] = 1
				found := x.Search(Query{Vector: query, K: 5, Category: "c"})
				if len(found) > 5 || len(found) < 5 && x.Len() > 100 {
					t.Errorf("%d found", len(found))
				}
			}
		})
	}
	work.Wait()
}

// The processor's own instruction counts as the loop does, for any number of rows and words.
func TestDifferingRowsEqualsALoop(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, words := range []int{4, 8, 16, 32, 128} {
		for _, n := range []int{0, 1, 2, 255, 256, 300} {
			code, rows := make([]uint64, words), make([]uint64, words*n+3)
			for _, some := range [][]uint64{code, rows} {
				for i := range some {
					some[i] = random.Uint64()
				}
			}
			if n > 1 {
				copy(rows, code)
				for i := range words {
					rows[words+i] = ^code[i]
				}
			}
			got, want := make([]uint16, n), make([]uint16, n)
			differingRows(code, rows, got)
			differingInGo(code, rows, want)
			if !slices.Equal(got, want) {
				t.Fatalf("%d rows of %d words: %v, want %v", n, words, got, want)
			}
		}
	}
}

func BenchmarkDiffering(b *testing.B) {
	code, rows, out := make([]uint64, 16), make([]uint64, 16*100_000), make([]uint16, 100_000)
	for name, differ := range map[string]func(code, rows []uint64, out []uint16){"rows": differingRows, "go": differingInGo} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				differ(code, rows, out)
			}
		})
	}
}
