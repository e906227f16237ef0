package breaker

import (
	"time"

	"keyfold/engine"
)

// Config says when a breaker opens and how it looks for a way back.
type Config struct {
	// Failures in a row that open it.
	Failures int
	// Silence opens it when calls have been under way for this long and none
	// has succeeded.
	Silence time.Duration
	// MinPause and MaxPause bound the wait between two probes: doubled each
	// time.
	MinPause, MaxPause time.Duration
	// Rest is after how long without a call a closed breaker probes the store by itself,
	// so that an idle worker notices that it is away. 0: it does not.
	Rest time.Duration
	// ProbeTimeout bounds one probe.
	ProbeTimeout time.Duration
	// HoldMax is how long callers wait for an open breaker, counted from its
	// opening.
	HoldMax time.Duration
}

// DefaultConfig returns the settings of a worker that was told nothing.
func DefaultConfig() Config {
	return Config{
		Failures:     3,
		Silence:      5 * time.Second,
		MinPause:     250 * time.Millisecond,
		MaxPause:     2 * time.Second,
		ProbeTimeout: 5 * time.Second,
		HoldMax:      time.Minute,
	}
}

// Validate reports every fault at once, by the name of the field where a program lets it be set.
func (c Config) Validate() error {
	var faults engine.Faults
	faults.If(c.Failures < 1, "breaker opens after %d failures: it must be at least 1", c.Failures)
	faults.If(c.MinPause <= 0 || c.MaxPause < c.MinPause, "breaker probes after %v up to %v: both must be above 0, in this order", c.MinPause, c.MaxPause)
	faults.If(c.Silence <= 0 || c.ProbeTimeout <= 0, "breaker with silence %v and probe timeout %v: both must be above 0", c.Silence, c.ProbeTimeout)
	// Half of the 30 min after which RabbitMQ closes a channel for a message
	// that is not acknowledged: windows and queues come on top.
	faults.If(c.HoldMax < time.Second || c.HoldMax > 15*time.Minute, "HoldMax is %v: it must be between 1 s and 900 s", c.HoldMax)
	return faults.Err()
}
