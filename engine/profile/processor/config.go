package processor

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/rounds"
)

// Config holds the laws' settings and the application's own.
type Config struct {
	profile.Config
	// CacheBytes bounds the profiles kept in memory, so that a known user
	// needs no read. 0 keeps none.
	CacheBytes int64
	// Conflicts is how often one batch is folded again because another worker
	// wrote its user first; after that its events take the transient path.
	Conflicts int
	// Failures is how often in a row the store may fail a flush, though it is not
	// away; after that the events take the transient path.
	Failures int
	// Lease is for how long after its arrival an event may be folded; 0: for ever.
	// See [profile.Delivery.Arrived].
	Lease time.Duration
	// Pause and MaxPause bound the wait before a store that failed is tried
	// again: doubled each time.
	Pause, MaxPause time.Duration
}

// DefaultConfig returns the settings of a worker that was told nothing.
func DefaultConfig() Config {
	return Config{
		Config:     profile.DefaultConfig(),
		CacheBytes: 128 << 20,
		Conflicts:  10,
		Failures:   5,
		Pause:      100 * time.Millisecond,
		MaxPause:   5 * time.Second,
	}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	faults := engine.Faults{c.Config.Validate()}
	faults.If(c.CacheBytes < 0, "profile cache of %d bytes: it must not be negative", c.CacheBytes)
	faults.If(c.Conflicts < 0, "%d conflicts: it must not be negative", c.Conflicts)
	faults.If(c.Failures < 1, "%d store failures: it must be at least 1", c.Failures)
	faults.If(c.Lease < 0 || c.Lease > c.IDs.Horizon, "a lease of %v: it must be from 0 to the horizon, %v", c.Lease, c.IDs.Horizon)
	faults.If(c.Pause <= 0 || c.MaxPause < c.Pause, "store pause %v up to %v: both must be above 0, in this order", c.Pause, c.MaxPause)
	return faults.Err()
}

// policy returns how often a round is repeated. Without a breaker nothing says whether the
// store is away, so that failures are not counted.
func (c Config) policy(hasBreaker bool) rounds.Policy {
	p := rounds.Policy{Conflicts: c.Conflicts, Failures: c.Failures, Pause: c.Pause, MaxPause: c.MaxPause}
	if !hasBreaker {
		p.Failures = 0
	}
	return p
}
