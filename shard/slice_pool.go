package shard

import "math/bits"

// slicePool keeps the item slices of finished windows for new ones, by power of
// two. Windows come and go at the rate of the traffic, and a busy one grows
// through every size: with fresh slices that is the room's whole garbage
// (BenchmarkRecycler). Owned by the shard's actor.
type slicePool[V any] struct {
	free  [maxClass][][]V
	kept  int // items the free slices have room for
	limit int // above it slices are left to the collector
}

const (
	minCap   = 2  // most windows hold very few items
	maxClass = 32 // far above any batch
)

// append is the built-in append with recycled growth.
func (r *slicePool[V]) append(s []V, v V) []V {
	if len(s) == cap(s) {
		s = r.grow(s)
	}
	return append(s, v)
}

func (r *slicePool[V]) grow(s []V) []V {
	size := max(minCap, 2*cap(s))
	bigger := r.get(size)
	bigger = append(bigger, s...)
	r.put(s)
	return bigger
}

// get returns an empty slice with room for size items, a power of two.
func (r *slicePool[V]) get(size int) []V {
	free := &r.free[class(size)]
	last := len(*free) - 1
	if last < 0 {
		return make([]V, 0, size)
	}
	s := (*free)[last]
	(*free)[last] = nil
	*free = (*free)[:last]
	r.kept -= size
	return s
}

// put takes back a slice that get returned. Its items are forgotten, so that
// nothing they point to is kept alive.
func (r *slicePool[V]) put(s []V) {
	if cap(s) == 0 || r.kept+cap(s) > r.limit {
		return
	}
	clear(s)
	free := &r.free[class(cap(s))]
	*free = append(*free, s[:0])
	r.kept += cap(s)
}

func class(size int) int { return bits.TrailingZeros(uint(size)) }
