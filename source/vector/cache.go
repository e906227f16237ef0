package vector

import (
	"strings"
	"time"

	"keyfold/engine/lru"
)

// cache keeps unit vectors by normalised phrase, bounded by bytes, least
// recently used out first. A model gives one text one vector for ever; ageing
// is for those who exchange what is behind a model's name.
type cache struct {
	lru *lru.Cache[string, kept]
	ttl time.Duration // 0: nothing in it grows old
}

type kept struct {
	unit []float64
	old  time.Time // when it is too old; not set without a TTL
}

func newCache(limit int64, ttl time.Duration) *cache {
	return &cache{lru: lru.New(limit, size), ttl: ttl}
}

// size estimates the bytes an entry keeps alive.
func size(text string, k kept) int64 {
	const fixed = 224 // the LRU entry, its map slot and the headers
	return fixed + int64(len(text)+8*len(k.unit))
}

func (c *cache) get(text string) []float64 {
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
	c.lru.Put(text, k)
}
