package catalog

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// FaultTTL is how long the catalog keeps saying that a product is unknown or
// has no usable vector, before it reads again.
const FaultTTL = 5 * time.Second

// Config holds the settings of a [Catalog].
type Config struct {
	Dimensions int    // components of every vector
	Model      string // what makes the vectors
	// CacheBytes bounds what is kept in memory. 0 keeps nothing.
	CacheBytes int64
	// CacheTTL is how old a product's vector may be. 0 keeps none.
	CacheTTL time.Duration
	// Chunk is how many products one look-up asks for at most.
	Chunk int
}

// DefaultConfig returns the settings of a worker that was told nothing: 64 MiB
// (some 5,000 products of 1536 components) for 10 minutes, 256 products per
// look-up (some 3 MiB of documents).
func DefaultConfig() Config {
	laws := profile.DefaultConfig()
	return Config{
		Dimensions: laws.Dimensions,
		Model:      laws.Model,
		CacheBytes: 64 << 20,
		CacheTTL:   10 * time.Minute,
		Chunk:      256,
	}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults engine.Faults
	faults.If(c.Dimensions < 1 || c.Dimensions > profile.MaxDimensions, "Dimensions is %d: it must be between 1 and %d", c.Dimensions, profile.MaxDimensions)
	faults.If(c.Model == "", "Model is empty: it must name what made the product vectors")
	faults.If(c.CacheBytes < 0, "product cache of %d bytes: it must not be negative", c.CacheBytes)
	faults.If(c.CacheTTL < 0, "product cache TTL of %v: it must not be negative", c.CacheTTL)
	faults.If(c.Chunk < 1, "look-ups of %d products: it must be at least 1", c.Chunk)
	return faults.Err()
}
