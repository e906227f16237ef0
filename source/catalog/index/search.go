package index

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
)

// Query asks for products.
type Query struct {
	Vector   []float64      // of any length but zero
	K        int            // how many at most
	Category string         // "": of any
	Skip     map[int32]bool // ids that are left out
}

// Found is a product and its score: the inner product of its unit vector and the query.
type Found struct {
	Item
	Score float64
}

// Search returns the products with the largest scores, the largest first, equal ones by
// id. It looks at every product.
func (x *Index) Search(q Query) []Found {
	if q.K < 1 || len(q.Vector) != x.dimensions {
		return nil
	}
	query := blas32.Vector{N: x.dimensions, Inc: 1, Data: make([]float32, x.dimensions)}
	for i, component := range q.Vector {
		query.Data[i] = float32(component)
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	category := int32(-1)
	if q.Category != "" {
		number, known := x.numbers[q.Category]
		if !known {
			return nil
		}
		category = number
	}
	best := top{k: q.K}
	for row := range int32(len(x.items)) {
		if category >= 0 && x.categories[row] != category {
			continue
		}
		score := blas32.Dot(query, blas32.Vector{N: x.dimensions, Inc: 1, Data: x.row(row)})
		if !best.takes(score) || len(q.Skip) > 0 && q.Skip[x.items[row].ID] {
			continue
		}
		best.add(candidate{score, row, x.items[row].ID})
	}
	return x.found(best.sorted(), q.Vector)
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
