package index

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
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

// Of how many products a search by codes takes the inner products: this many, and for a
// long answer so many times its length.
const (
	candidates    = 300
	candidatesPer = 4
)

// halfCandidates is for how many products a search compares whole codes, for each of those:
// of the others it compares the first half only.
const halfCandidates = 8

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

// Search returns the products with the largest scores, the largest first, equal ones by
// id. With at most 5,000 products that can be found it takes the inner product of each. With
// more it takes those of the products whose codes are most like the query's, which are nearly
// always the nearest.
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
	if most := max(x.candidates, candidatesPer*q.K); q.Exact || f.rows <= max(x.exact, most) {
		x.all(query, &f, &best)
	} else {
		x.likely(x.coder.code(q.Vector), query, most, &f, &best)
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

// likely looks at the rows whose codes differ least from the query's, at so many or a few
// more.
func (x *Index) likely(code []uint64, query []float32, most int, f *filter, best *top) {
	r := x.ranks.Get().(*rank)
	defer x.ranks.Put(r)
	r.begin(len(x.items), 64*len(code))
	x.rank(r, code[:len(code)/2], f.category)
	for id := range f.skip {
		if row, known := x.rows[id]; known {
			r.unset(row)
		}
	}
	x.refine(r, code, r.last(halfCandidates*most))
	last := r.last(most)
	for row, differ := range r.rows {
		if differ > last {
			continue
		}
		if score := inner(query, x.row(int32(row))); best.takes(score) {
			best.add(candidate{score, int32(row), x.items[row].ID})
		}
	}
}

// rank ranks the rows of a category by the first half of their codes.
func (x *Index) rank(r *rank, half []uint64, category int32) {
	var differ [256]uint16
	for from := 0; from < len(x.items); from += len(differ) {
		some := differ[:min(len(differ), len(x.items)-from)]
		differingRows(half, x.codes[0][from*len(half):], some)
		for i, n := range some {
			if row := int32(from + i); category < 0 || x.categories[row] == category {
				r.set(row, int(n))
			}
		}
	}
}

// refine ranks the rows that differ in at most so many bits of the first half by all bits.
func (x *Index) refine(r *rank, code []uint64, last uint16) {
	clear(r.counts)
	for row, differ := range r.rows {
		if differ > last {
			r.rows[row] = unranked
			continue
		}
		r.set(int32(row), int(differ)+differing(code[len(code)/2:], x.code(1, int32(row))))
	}
}

// rank is by how much rows differ from a query.
type rank struct {
	rows   []uint16 // in how many bits each differs; unranked
	counts []int    // of rows, by that number
}

const unranked = math.MaxUint16

func (r *rank) begin(rows, bits int) {
	r.rows = slices.Grow(r.rows[:0], rows)[:rows]
	for i := range r.rows {
		r.rows[i] = unranked
	}
	r.counts = slices.Grow(r.counts[:0], bits+1)[:bits+1]
	clear(r.counts)
}

func (r *rank) set(row int32, differ int) {
	r.rows[row] = uint16(differ)
	r.counts[differ]++
}

func (r *rank) unset(row int32) {
	if differ := r.rows[row]; differ != unranked {
		r.counts[differ]--
		r.rows[row] = unranked
	}
}

// last returns the number of bits in which the last of so many rows differs.
func (r *rank) last(most int) uint16 {
	for differ, count := range r.counts {
		if most -= count; most <= 0 {
			return uint16(differ)
		}
	}
	return uint16(len(r.counts) - 1)
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

func inner(a, b []float32) float32 {
	return blas32.Dot(blas32.Vector{N: len(a), Inc: 1, Data: a}, blas32.Vector{N: len(b), Inc: 1, Data: b})
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
