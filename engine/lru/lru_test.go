package lru

import (
	"math/rand/v2"
	"testing"
)

// However entries come, come again and go: the count of bytes is theirs, and the
// limit holds.
func TestCacheCountsItsBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	size := func(k int, v []byte) int64 { return int64(k + len(v)) }
	c := New(3000, size)
	for range 2000 {
		if k := random.IntN(20); random.IntN(8) == 0 {
			c.Remove(k)
		} else {
			c.Put(k, make([]byte, 1+random.IntN(800)))
		}
		var sum int64
		for _, k := range c.lru.Keys() {
			v, _ := c.lru.Peek(k)
			sum += size(k, v)
		}
		if _, bytes := c.Usage(); bytes != sum || sum > c.limit {
			t.Fatalf("it counts %d bytes, its entries have %d, the limit is %d", bytes, sum, c.limit)
		}
	}
	c.Put(1, make([]byte, 3001))
	if entries, bytes := c.Usage(); entries != 0 || bytes != 0 {
		t.Errorf("%d entries and %d bytes behind one above the limit", entries, bytes)
	}
}

// What was read last stays; a peek does not count as reading.
func TestLeastRecentlyUsedOutFirst(t *testing.T) {
	c := New(2, func(string, int) int64 { return 1 })
	c.Put("a", 1)
	c.Put("b", 2)
	c.PutUnless("b", 4, func(kept int) bool { return kept == 2 })
	c.Get("a")
	c.Put("c", 3)
	if _, ok := c.Get("b"); ok || c.lru.Len() != 2 {
		t.Error("the least recently used entry stayed")
	}
	if v, ok := c.Get("a"); !ok || v != 1 {
		t.Error("the entry that was read went")
	}
}
