package catalog

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/lru"
)

// cache keeps answers by product id, bounded by bytes, least recently used out
// first. An answer past its age is read again where it is met; until then it
// only takes up room that a newer one may claim.
type cache struct {
	lru *lru.Cache[int32, answer]
	ttl time.Duration // of vectors; all else lives FaultTTL
}

type answer struct {
	engine.Resolved
	asOf time.Time // before the read that gave it began
}

func newCache(limit int64, ttl time.Duration) *cache {
	return &cache{lru: lru.New(limit, size), ttl: ttl}
}

// size estimates the bytes an entry keeps alive.
func size(_ int32, a answer) int64 {
	const fixed = 220 // the LRU entry and its map slot
	const text = 300  // an error's chain and its text
	if a.Err != nil {
		return fixed + text
	}
	return fixed + int64(8*len(a.Vector))
}

func (c *cache) live(a answer, now time.Time) bool {
	ttl := c.ttl
	if a.Err != nil {
		ttl = FaultTTL
	}
	return now.Sub(a.asOf) < ttl
}

// fill answers what it can and returns the positions of the other ids.
func (c *cache) fill(answers []engine.Resolved, ids []int32, now time.Time) (unread []int) {
	for i, id := range ids {
		if a, ok := c.lru.Get(id); ok && c.live(a, now) {
			answers[i] = a.Resolved
			continue
		}
		unread = append(unread, i)
	}
	return unread
}

// put keeps the answers at these positions, except where another look-up that
// began later was faster.
func (c *cache) put(answers []engine.Resolved, ids []int32, positions []int, asOf time.Time) {
	for _, p := range positions {
		c.lru.PutUnless(ids[p], answer{answers[p], asOf}, func(kept answer) bool { return kept.asOf.After(asOf) })
	}
}
