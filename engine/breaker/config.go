package breaker

import (
	"errors"
	"fmt"
	"time"
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

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	if c.Failures < 1 {
		faults = append(faults, fmt.Errorf("breaker opens after %d failures: it must be at least 1", c.Failures))
	}
	if c.MinPause <= 0 || c.MaxPause < c.MinPause {
		faults = append(faults, fmt.Errorf("breaker probes after %v up to %v: both must be above 0, in this order", c.MinPause, c.MaxPause))
	}
	if c.Silence <= 0 || c.ProbeTimeout <= 0 {
		faults = append(faults, fmt.Errorf("breaker with silence %v and probe timeout %v: both must be above 0", c.Silence, c.ProbeTimeout))
	}
	// Half of the 30 min after which RabbitMQ closes a channel for a message
	// that is not acknowledged: windows and queues come on top.
	if c.HoldMax < time.Second || c.HoldMax > 15*time.Minute {
		faults = append(faults, fmt.Errorf("WORKER_HOLD_MAX is %v: it must be between 1 s and 900 s", c.HoldMax))
	}
	return errors.Join(faults...)
}
