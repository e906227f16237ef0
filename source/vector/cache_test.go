package vector

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// However entries come, come again and go: the count of bytes is theirs.
func TestCacheCountsItsBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := newCache(3000, 0)
	for range 2000 {
		c.put(fmt.Sprint(random.IntN(20)), make([]float64, 1+random.IntN(100)))
		var sum int64
		for _, text := range c.lru.Keys() {
			k, _ := c.lru.Peek(text)
			sum += size(text, k.unit)
		}
		if c.bytes != sum || sum > c.limit {
			t.Fatalf("it counts %d bytes, its entries have %d, the limit is %d", c.bytes, sum, c.limit)
		}
	}
	if c.put("too large", make([]float64, 1000)); c.lru.Len() != 0 || c.bytes != 0 {
		t.Errorf("%d entries and %d bytes behind one above the limit", c.lru.Len(), c.bytes)
	}
}
