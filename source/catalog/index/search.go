package index

import (
	"cmp"
	"slices"
)

// Query asks for products.
type Query struct {
	Vector   []float64      // of any length but zero
	K        int            // how many at most
	Category string         // "": of any
	Skip     map[int32]bool // ids that are left out
	Exact    bool           // whether to look at every product, however many there are
}

// Found is a product and its score: the inner product of its unit vector and the query.
type Found struct {
	Item
	Score float64
}

// reach is among how many of the nearest nodes a search of the graph looks for the answer:
// ef of Malkov and Yashunin. An answer of more products has twice their number.
const reach = 100

// filter is what rows an answer is made from.
type filter struct {
	index    *Index
	category int32 // -1: of any
	skip     map[int32]bool
	rows     int // of the category
}

func (f *filter) takes(row int32) bool {
	return (f.category < 0 || f.index.categories[row] == f.category) && (len(f.skip) == 0 || !f.skip[f.index.items[row].ID])
}

// takesNode reports whether a node, or a copy of it, is to be found.
func (f *filter) takesNode(row int32) bool {
	return f.takes(row) || slices.ContainsFunc(f.index.graph.nodes[row].copies, f.takes)
}

// Search returns the products with the largest scores, the largest first, equal ones by
// id. With at most 10,000 products that can be found it looks at each of them. With more it
// goes through the graph, which finds nearly all of the nearest, and of equal ones any.
func (x *Index) Search(q Query) []Found {
	if q.K < 1 || len(q.Vector) != x.dimensions {
		return nil
	}
	query := make([]float32, x.dimensions)
	for i, component := range q.Vector {
		query[i] = float32(component)
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	f := filter{index: x, category: -1, skip: q.Skip, rows: len(x.items)}
	if q.Category != "" {
		number, known := x.numbers[q.Category]
		if !known {
			return nil
		}
		f.category, f.rows = number, x.counts[number]
	}
	best := top{k: q.K}
	if q.Exact || !x.near(query, &f, &best) {
		best = top{k: q.K}
		x.all(query, &f, &best)
	}
	return x.found(best.sorted(), q.Vector)
}

// all looks at every row.
func (x *Index) all(query []float32, f *filter, best *top) {
	for row := range int32(len(x.items)) {
		if f.category >= 0 && x.categories[row] != f.category {
			continue
		}
		score := inner(query, x.row(row))
		if best.takes(score) && f.takes(row) {
			best.add(candidate{score, row, x.items[row].ID})
		}
	}
}

// near goes through the graph. It returns false where it is better to look at every row:
// there are few, the graph is too small, or has led to too few.
func (x *Index) near(query []float32, f *filter, best *top) bool {
	g := &x.graph
	if f.rows <= x.exact || g.waiting > len(x.items)/2 || g.entry < 0 {
		return false
	}
	w := g.walks.Get().(*walk)
	defer g.walks.Put(w)
	w.begin(query, len(g.nodes))
	g.descend(w, 0)
	w.reach = max(reach, 2*best.k)
	if f.category >= 0 || len(f.skip) > 0 {
		w.takes = f.takesNode
	}
	if !g.across(w, 0, f.rows) {
		return false
	}
	for _, s := range w.best {
		x.addNode(s, f, best)
	}
	if g.waiting > 0 {
		x.addWaiting(query, f, best)
	}
	return len(best.all) >= best.k
}

// addNode adds a node and its copies.
func (x *Index) addNode(s scored, f *filter, best *top) {
	if !best.takes(s.score) {
		return
	}
	if f.takes(s.row) {
		best.add(candidate{s.score, s.row, x.items[s.row].ID})
	}
	for _, row := range x.graph.nodes[s.row].copies {
		if f.takes(row) {
			best.add(candidate{s.score, row, x.items[row].ID})
		}
	}
}

// addWaiting adds rows that the graph does not lead to yet.
func (x *Index) addWaiting(query []float32, f *filter, best *top) {
	for row := range int32(len(x.items)) {
		if !x.graph.waits(row) || !f.takes(row) {
			continue
		}
		if score := inner(query, x.row(row)); best.takes(score) {
			best.add(candidate{score, row, x.items[row].ID})
		}
	}
}

// found makes the answer. The scores are computed anew with float64, so that they do not
// depend on the order of the sums.
func (x *Index) found(best []candidate, query []float64) []Found {
	all := make([]Found, len(best))
	for i, c := range best {
		all[i] = Found{Item: x.items[c.row], Score: dot(query, x.row(c.row))}
	}
	slices.SortFunc(all, func(a, b Found) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return all
}

func dot(a []float64, b []float32) (sum float64) {
	for i, component := range b {
		sum += a[i] * float64(component)
	}
	return sum
}

// candidate is a row that may be among the best.
type candidate struct {
	score float32
	row   int32
	id    int32
}

func (c candidate) compare(d candidate) int {
	return cmp.Or(cmp.Compare(d.score, c.score), cmp.Compare(c.id, d.id))
}

// top keeps the k best candidates: it collects twice as many, then drops the worse half, so
// that most candidates cost one comparison.
type top struct {
	k     int
	all   []candidate
	least float32 // of the k best, once there are so many
	full  bool
}

func (t *top) takes(score float32) bool { return !t.full || score >= t.least }

func (t *top) add(c candidate) {
	if t.all = append(t.all, c); len(t.all) >= 2*t.k {
		t.cut()
	}
}

func (t *top) cut() {
	slices.SortFunc(t.all, candidate.compare)
	if len(t.all) >= t.k {
		t.all = t.all[:t.k]
		t.least, t.full = t.all[t.k-1].score, true
	}
}

func (t *top) sorted() []candidate {
	t.cut()
	return t.all
}
