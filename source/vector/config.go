package vector

import (
	"time"

	"keyfold/engine"
)

// Config holds the settings of [Phrases].
type Config struct {
	// CacheBytes bounds the unit vectors kept in memory. 0 keeps none.
	CacheBytes int64
	// CacheTTL is how long one is kept at most. 0: as long as there is room.
	CacheTTL time.Duration
	// FoldCase makes all letters small before anything is asked for: fewer
	// distinct phrases, so fewer calls. It is off by default: models read case
	// ("US" is not "us", nor "Apple" "apple"), product texts keep theirs, and
	// profiles made before it is turned on have folded what was typed.
	FoldCase bool
	// Patience is how long one Resolve waits for vectors that are asked for. 0:
	// as long as its context. One that comes later is kept all the same, so
	// that the next attempt finds it. It works with a [Batching] only: a
	// direct call is the caller's to bound.
	Patience time.Duration
	// Zeros are appended to each vector: products have learned components there, which no
	// phrase has.
	Zeros int
}

// DefaultConfig keeps 32 MiB of vectors: some 2,600 phrases of 1536 components.
func DefaultConfig() Config { return Config{CacheBytes: 32 << 20} }

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults engine.Faults
	faults.If(c.CacheBytes < 0, "phrase cache of %d bytes: it must not be negative", c.CacheBytes)
	faults.If(c.CacheTTL < 0, "CacheTTL is %v: it must not be negative", c.CacheTTL)
	faults.If(c.Zeros < 0, "%d zeros behind a phrase's vector: they must not be fewer than none", c.Zeros)
	faults.If(c.Patience < 0, "patience of %v for a phrase: it must not be negative", c.Patience)
	return faults.Err()
}

// Batching says how phrases of many callers share requests.
type Batching struct {
	// Inputs is how many phrases a request has at most.
	Inputs int
	// Requests is how many are under way at once at most.
	Requests int
	// MinWait is how long a phrase waits for company when nothing is under way.
	MinWait time.Duration
	// MaxWait is how long it waits when something is: the phrases that come while
	// a request is under way go together with the next one. A request that
	// hangs delays others by no more than this.
	MaxWait time.Duration
}

// DefaultBatching suits an API that answers in some 50 ms.
func DefaultBatching() Batching {
	return Batching{Inputs: 256, Requests: 4, MinWait: 4 * time.Millisecond, MaxWait: 50 * time.Millisecond}
}

// Validate reports every fault at once.
func (g Batching) Validate() error {
	var faults engine.Faults
	faults.If(g.Inputs < 1, "requests of %d phrases: it must be at least 1", g.Inputs)
	faults.If(g.Requests < 1, "%d requests at once: it must be at least 1", g.Requests)
	faults.If(g.MinWait < 0 || g.MaxWait < g.MinWait, "phrases wait for company for %v, and %v while a request is under way: "+
		"neither may be negative, and the second not below the first", g.MinWait, g.MaxWait)
	return faults.Err()
}
