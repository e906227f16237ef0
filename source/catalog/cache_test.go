package catalog

import (
	"math/rand/v2"
	"testing"
	"time"

	"keyfold/engine"
)

// However entries come, come again and go, they stay within the limit.
func TestCacheStaysWithinItsBytes(t *testing.T) {
	const limit = 3000
	random := rand.New(rand.NewPCG(1, 2))
	c := newCache(limit, time.Hour)
	put := func(id int32, r engine.Resolved) {
		c.put([]engine.Resolved{r}, []int32{id}, []int{0}, time.Now())
	}
	for range 2000 {
		r := engine.Resolved{Vector: make([]float64, 1+random.IntN(100))}
		if random.IntN(4) == 0 {
			r = engine.Resolved{Err: engine.ErrMissing}
		}
		put(random.Int32N(20), r)
		if _, got := c.lru.Usage(); got > limit || got <= 0 {
			t.Fatalf("it has %d bytes, the limit is %d", got, limit)
		}
	}
	if size(1, answer{Resolved: engine.Resolved{Vector: make([]float64, 1536)}}) < 8*1536 {
		t.Error("a vector takes up less than its components")
	}
	put(1, engine.Resolved{Vector: make([]float64, 1000)})
	if entries, bytes := c.lru.Usage(); entries != 0 || bytes != 0 {
		t.Errorf("%d entries and %d bytes behind one above the limit", entries, bytes)
	}
}
