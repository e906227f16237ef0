package catalog

import (
	"math/rand/v2"
	"testing"
	"time"

	"keyfold/engine"
)

// However entries come, come again and go: the count of bytes is theirs.
func TestCacheCountsItsBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := newCache(3000, time.Hour)
	put := func(id int32, r engine.Resolved) {
		c.put([]engine.Resolved{r}, []int32{id}, []int{0}, time.Now())
	}
	for range 2000 {
		r := engine.Resolved{Vector: make([]float64, 1+random.IntN(100))}
		if random.IntN(4) == 0 {
			r = engine.Resolved{Err: engine.ErrMissing}
		}
		put(random.Int32N(20), r)
		var sum int64
		for _, id := range c.lru.Keys() {
			a, _ := c.lru.Peek(id)
			sum += size(a)
		}
		if c.bytes != sum || sum > c.limit {
			t.Fatalf("it counts %d bytes, its entries have %d, the limit is %d", c.bytes, sum, c.limit)
		}
	}
	if size(answer{Resolved: engine.Resolved{Vector: make([]float64, 1536)}}) < 8*1536 {
		t.Error("a vector takes up less than its components")
	}
	if put(1, engine.Resolved{Vector: make([]float64, 1000)}); c.lru.Len() != 0 || c.bytes != 0 {
		t.Errorf("%d entries and %d bytes behind one above the limit", c.lru.Len(), c.bytes)
	}
}
