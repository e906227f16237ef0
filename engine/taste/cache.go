package taste

import (
	"sync"

	"keyfold/engine"
	"keyfold/engine/lru"
)

// cache keeps the profiles written or read last, bounded by bytes, least
// recently used out first. A user's profile may be stale when several workers
// share a store: the version check finds that out, and the entry is dropped.
type cache struct {
	mu  sync.Mutex
	lru *lru.Cache[int32, *engine.Profile] // under mu
}

func newCache(limit int64) *cache { return &cache{lru: lru.New(limit, size)} }

// size estimates the bytes a profile keeps alive.
func size(_ int32, p *engine.Profile) int64 {
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
	c.lru.Put(p.UserID, p)
}

func (c *cache) drop(user int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(user)
}
