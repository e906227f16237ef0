package similar

import "keyfold/engine/lru"

// rowsLimit is how many bytes of rows are kept.
const rowsLimit = 256 << 20

// behind is the similarity of a candidate that has no vector: less than any cosine.
const behind = -2

// rows keeps rows of similarities that were made.
type rows struct {
	cache *lru.Cache[int32, []float64]
}

func newRows() rows {
	return rows{lru.New(rowsLimit, func(_ int32, row []float64) int64 { return int64(8*len(row)) + 64 })}
}

// get returns a thing's row, which it has made if it is not kept. Two goroutines may
// make the same row at once: it is the same.
func (r rows) get(thing int32, compute func() []float64) []float64 {
	if row, ok := r.cache.Get(thing); ok {
		return row
	}
	row := compute()
	r.cache.Put(thing, row)
	return row
}
