package processor

import (
	"keyfold/engine/lru"
	"keyfold/engine/profile"
)

// newCache returns a cache of the profiles written or read last. A user's profile may
// be stale when several workers share a store: the version check finds that out, and
// the entry is dropped.
func newCache(limit int64) *lru.Cache[int32, *profile.Profile] { return lru.New(limit, size) }

// size estimates the bytes a profile keeps alive.
func size(_ int32, p *profile.Profile) int64 {
	const fixed = 368 // the struct, its LRU entry and its map slot
	return fixed + int64(8*len(p.Vector)+8*len(p.Short.Vector)+8*cap(p.Applied.IDs)+24*cap(p.Applied.Groups)+len(p.LastID))
}
