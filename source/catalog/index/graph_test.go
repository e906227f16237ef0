package index

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine/profile"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// withGraph returns an index that has a graph above so many products.
func withGraph(dimensions, exact int) *Index {
	x := New(dimensions, "m")
	x.exact = exact
	return x
}

// linked waits until the graph has every product.
func (x *Index) linked() {
	for x.Waiting() > 0 {
		time.Sleep(100 * time.Microsecond)
	}
}

// named returns products with names like a shop's and the vectors of the names. One of ten
// has another's name.
func named(tb testing.TB, random *rand.Rand, first, n int32, dimensions int) (all []profile.Product) {
	hash, err := vector.NewHash(dimensions)
	if err != nil {
		tb.Fatal(err)
	}
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
		if err != nil {
			tb.Fatal(err)
		}
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

// The graph finds nearly all of the nearest products, with filters too, and after half of
// the products were removed and replaced by others.
//
// Promise(recommend/recall): Above 10,000 products the search finds 98 of 100 of the nearest ones, with filters too, also after half were removed and replaced.
func TestRecall(t *testing.T) {
	const dimensions, n = 128, 2000
	random := rand.New(rand.NewPCG(1, 2))
	x := withGraph(dimensions, 200)
	x.Put(named(t, random, 1, n, dimensions)...)
	judge := func(when string) {
		x.linked()
		x.check(t)
		skip := map[int32]bool{}
		for range 300 {
			skip[random.Int32N(2*n)] = true
		}
		for name, filter := range map[string]Query{
			"all": {}, "a category": {Category: "Home/Garden"}, "without some": {Skip: skip}, "both": {Category: "Books/Fiction", Skip: skip},
		} {
			if got := recall(t, x, random, filter); got < 0.98 {
				t.Errorf("%s, %s: recall %.3f", when, name, got)
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

// failing is a test, or one of rapid's.
type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check looks at the graph's own rules.
func (x *Index) check(t failing) {
	t.Helper()
	x.mu.RLock()
	defer x.mu.RUnlock()
	g, waiting, links := &x.graph, 0, int64(0)
	for row := range int32(len(g.nodes)) {
		n := &g.nodes[row]
		if g.waits(row) {
			waiting++
		}
		if n.of >= 0 && (n.layers != nil || !slices.Contains(g.nodes[n.of].copies, row) || !slices.Equal(x.row(row), x.row(n.of))) {
			t.Fatalf("row %d is no copy of %d", row, n.of)
		}
		for i, l := range n.layers {
			links += int64(len(l.out))
			for _, o := range l.out {
				if o.row == row || !slices.Contains(g.at(o.row, i).in, row) || max(o.score-g.between(row, o.row), g.between(row, o.row)-o.score) > 1e-6 {
					t.Fatalf("the link of %d to %v is wrong", row, o)
				}
			}
			for _, other := range l.in {
				if position(g.at(other, i).out, row) < 0 {
					t.Fatalf("%d has no link to %d", other, row)
				}
			}
		}
	}
	if waiting != g.waiting || links != g.links || len(g.nodes) != len(x.items) {
		t.Fatalf("%d wait, %d are counted; %d links, %d are counted; %d nodes of %d products", waiting, g.waiting, links, g.links, len(g.nodes), len(x.items))
	}
	if g.entry >= 0 && g.nodes[g.entry].layers == nil || g.entry < 0 && waiting < len(g.nodes) {
		t.Fatalf("the entry is %d", g.entry)
	}
}

// What was removed is not found, nothing is found twice, and a search for as many products
// as there are finds all that the filter leaves, whatever was put in and taken out.
func TestGraphAfterChanges(t *testing.T) {
	const dimensions, ids = 4, 150
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x, there := withGraph(dimensions, 5), map[int32]string{}
		few := [][]float32{vectorOf(random, dimensions), vectorOf(random, dimensions)} // for products alike
		for range rapid.IntRange(0, 600).Draw(t, "changes") {
			id := 1 + random.Int32N(ids)
			switch random.IntN(40) {
			case 0:
				x.linked()
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
		if rapid.Bool().Draw(t, "linked") {
			x.linked()
		}
		x.check(t)
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

// A product is right in the search that follows its change, before the graph has it.
func TestGraphIsRightAtOnce(t *testing.T) {
	const dimensions = 16
	random := rand.New(rand.NewPCG(3, 3))
	x := withGraph(dimensions, 50)
	for id := range int32(1000) {
		x.Put(profile.Product{ID: id + 1, Vector: vectorOf(random, dimensions)})
	}
	for id := range int32(300) {
		v := vectorOf(random, dimensions)
		x.Put(profile.Product{ID: id + 1, Vector: v})
		_, unit, _ := x.Product(id + 1)
		if found := x.Search(Query{Vector: unit, K: 1}); len(found) != 1 || found[0].ID != id+1 {
			t.Fatalf("product %d: %v", id+1, found)
		}
		x.Remove(id + 1)
		if found := x.Search(Query{Vector: unit, K: 1}); len(found) != 1 || found[0].ID == id+1 {
			t.Fatalf("product %d, removed: %v", id+1, found)
		}
	}
}

// Searches run beside changes and beside the making of links.
func TestGraphBesideChanges(t *testing.T) {
	const dimensions, ids = 16, 700
	x := withGraph(dimensions, 100)
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
	x.linked()
	x.check(t)
}
