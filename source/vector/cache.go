package vector

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache keeps unit vectors by normalised phrase, bounded by bytes, least
// recently used out first. A model gives one text one vector for ever; ageing
// is for those who exchange what is behind a model's name.
type cache struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[string, kept] // under mu
	bytes int64                        // under mu
	limit int64
	ttl   time.Duration // 0: nothing in it grows old
}

type kept struct {
	unit []float64
	old  time.Time // when it is too old; not set without a TTL
}

func newCache(limit int64, ttl time.Duration) *cache {
	c := &cache{limit: limit, ttl: ttl}
	// The library bounds by count; the bytes are ours to count.
	c.lru, _ = simplelru.NewLRU(1<<31-1, func(text string, k kept) { c.bytes -= size(text, k.unit) })
	return c
}

// size estimates the bytes an entry keeps alive.
func size(text string, unit []float64) int64 {
	const fixed = 224 // the LRU entry, its map slot and the headers
	return fixed + int64(len(text)+8*len(unit))
}

func (c *cache) get(text string) []float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.lru.Get(text)
	if ok && c.ttl > 0 && !time.Now().Before(k.old) {
		c.lru.Remove(text)
		return nil
	}
	return k.unit
}

func (c *cache) put(text string, unit []float64) {
	text = strings.Clone(text) // it may be a part of a longer string
	k := kept{unit: unit}
	if c.ttl > 0 {
		k.old = time.Now().Add(c.ttl)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(text) // the library does not report a replaced value
	c.lru.Add(text, k)
	for c.bytes += size(text, unit); c.bytes > c.limit; {
		c.lru.RemoveOldest()
	}
}
