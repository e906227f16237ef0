package processor

import (
	"time"

	"keyfold/engine"
)

// Config sets the processor's bounds.
type Config struct {
	// Replay decides past events on their own clock: see the package's text.
	Replay bool
	// Conflicts is how often a user is decided again because another worker wrote
	// the user first; after that the deliveries get [Retry].
	Conflicts int
	// Failures is how often in a row a call of the ledger or of the dispatcher may
	// fail; after that the deliveries get [Retry].
	Failures int
	// Pause and MaxPause bound the wait before a call is tried again: doubled each
	// time.
	Pause, MaxPause time.Duration
}

// DefaultConfig returns the settings of a process that was told nothing.
func DefaultConfig() Config {
	return Config{Conflicts: 10, Failures: 5, Pause: 50 * time.Millisecond, MaxPause: 2 * time.Second}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults engine.Faults
	faults.If(c.Conflicts < 0, "%d conflicts: it must not be negative", c.Conflicts)
	faults.If(c.Failures < 1, "%d failures: it must be at least 1", c.Failures)
	faults.If(c.Pause <= 0 || c.MaxPause < c.Pause, "pause %v up to %v: both must be above 0, in this order", c.Pause, c.MaxPause)
	return faults.Err()
}
