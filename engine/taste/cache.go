package taste

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"keyfold/engine"
)

// cache keeps the profiles written or read last, bounded by bytes, least
// recently used out first. A user's profile may be stale when several workers
// share a store: the version check finds that out, and the entry is dropped.
type cache struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[int32, *engine.Profile]
	bytes int64
	limit int64
}

func newCache(limit int64) *cache {
	c := &cache{limit: limit}
	// The library bounds by count; the bytes are ours to count.
	c.lru, _ = simplelru.NewLRU(1<<31-1, func(_ int32, p *engine.Profile) { c.bytes -= size(p) })
	return c
}

// size estimates the bytes a profile keeps alive.
func size(p *engine.Profile) int64 {
	const fixed = 320 // the struct, its LRU entry and its map slot
	return fixed + int64(8*len(p.Vector)+8*cap(p.Applied.IDs)+24*cap(p.Applied.Groups)+len(p.LastID))
}

func (c *cache) get(user int32) *engine.Profile {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _ := c.lru.Get(user)
	return p
}

func (c *cache) put(p *engine.Profile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(p.UserID) // the library does not report a replaced value
	c.lru.Add(p.UserID, p)
	for c.bytes += size(p); c.bytes > c.limit; {
		c.lru.RemoveOldest()
	}
}

func (c *cache) drop(user int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(user)
}
