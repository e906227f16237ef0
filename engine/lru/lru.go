// Package lru keeps what was used last, bounded by bytes.
package lru

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache is bounded by bytes, least recently used out first. It is safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	size  func(K, V) int64
	limit int64

	mu    sync.Mutex
	lru   *simplelru.LRU[K, V] // under mu
	bytes int64                // under mu
}

// New returns a cache of at most limit bytes; size estimates what an entry keeps
// alive, and must give the same for the same entry.
func New[K comparable, V any](limit int64, size func(K, V) int64) *Cache[K, V] {
	c := &Cache[K, V]{size: size, limit: limit}
	// The library bounds by count; the bytes are ours to count.
	c.lru, _ = simplelru.NewLRU(1<<31-1, func(k K, v V) { c.bytes -= size(k, v) })
	return c
}

// Get returns a value and makes it the one used last.
func (c *Cache[K, V]) Get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Get(k)
}

// Put keeps a value, in place of an older one. A value above the limit is not kept,
// and empties the cache.
func (c *Cache[K, V]) Put(k K, v V) { c.PutUnless(k, v, func(V) bool { return false }) }

// PutUnless keeps a value as Put does, unless better says that the one that is kept
// is to stay.
func (c *Cache[K, V]) PutUnless(k K, v V, better func(kept V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.lru.Peek(k); ok && better(kept) {
		return
	}
	c.lru.Remove(k) // the library does not report a replaced value
	c.lru.Add(k, v)
	for c.bytes += c.size(k, v); c.bytes > c.limit; {
		c.lru.RemoveOldest()
	}
}

// Remove drops a value.
func (c *Cache[K, V]) Remove(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(k)
}

// Usage returns the number of entries and what they take up in bytes.
func (c *Cache[K, V]) Usage() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Len(), c.bytes
}
