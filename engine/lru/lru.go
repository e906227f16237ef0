// Package lru keeps what was used last, bounded by bytes.
package lru

import "github.com/hashicorp/golang-lru/v2/simplelru"

// Cache is bounded by bytes, least recently used out first. It is not safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	lru   *simplelru.LRU[K, V]
	size  func(K, V) int64
	bytes int64
	limit int64
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
func (c *Cache[K, V]) Get(k K) (V, bool) { return c.lru.Get(k) }

// Peek returns a value and leaves its rank.
func (c *Cache[K, V]) Peek(k K) (V, bool) { return c.lru.Peek(k) }

// Put keeps a value, in place of an older one. A value above the limit is not kept,
// and empties the cache.
func (c *Cache[K, V]) Put(k K, v V) {
	c.lru.Remove(k) // the library does not report a replaced value
	c.lru.Add(k, v)
	for c.bytes += c.size(k, v); c.bytes > c.limit; {
		c.lru.RemoveOldest()
	}
}

// Remove drops a value.
func (c *Cache[K, V]) Remove(k K) { c.lru.Remove(k) }

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int { return c.lru.Len() }

// Bytes returns what the entries take up.
func (c *Cache[K, V]) Bytes() int64 { return c.bytes }
