package vector

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// However entries come, come again and go, they stay within the limit.
func TestCacheStaysWithinItsBytes(t *testing.T) {
	const limit = 3000
	random := rand.New(rand.NewPCG(1, 2))
	c := newCache(limit, 0)
	for range 2000 {
		c.put(fmt.Sprint(random.IntN(20)), make([]float64, 1+random.IntN(100)))
		if _, got := c.lru.Usage(); got > limit || got <= 0 {
			t.Fatalf("it has %d bytes, the limit is %d", got, limit)
		}
	}
	c.put("too large", make([]float64, 1000))
	if entries, bytes := c.lru.Usage(); entries != 0 || bytes != 0 {
		t.Errorf("%d entries and %d bytes behind one above the limit", entries, bytes)
	}
}
