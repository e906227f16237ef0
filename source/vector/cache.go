package vector

import (
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache keeps unit vectors by normalised phrase, bounded by bytes, least
// recently used out first. A model gives one text one vector for ever, so
// nothing in it grows old.
type cache struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[string, []float64] // under mu
	bytes int64                             // under mu
	limit int64
}

func newCache(limit int64) *cache {
	c := &cache{limit: limit}
	// The library bounds by count; the bytes are ours to count.
	c.lru, _ = simplelru.NewLRU(1<<31-1, func(text string, unit []float64) { c.bytes -= size(text, unit) })
	return c
}

// size estimates the bytes an entry keeps alive.
func size(text string, unit []float64) int64 {
	const fixed = 200 // the LRU entry, its map slot and the headers
	return fixed + int64(len(text)+8*len(unit))
}

func (c *cache) get(text string) []float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	unit, _ := c.lru.Get(text)
	return unit
}

func (c *cache) put(text string, unit []float64) {
	text = strings.Clone(text) // it may be a part of a longer string
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(text) // the library does not report a replaced value
	c.lru.Add(text, unit)
	for c.bytes += size(text, unit); c.bytes > c.limit; {
		c.lru.RemoveOldest()
	}
}
