package inbox

import (
	"errors"
	"fmt"
	"time"

	"keyfold/engine/backoff"
)

// MaxRetryDelay bounds the delay between two attempts.
const MaxRetryDelay = time.Minute

// Config holds the inbox's settings.
type Config struct {
	// RetryDelay is the delay before the first retry; it doubles with each
	// one, up to [MaxRetryDelay].
	RetryDelay time.Duration
	// MaxRetries is how many attempts follow the first one.
	MaxRetries int
}

// Validate reports every fault at once, by the names of the environment
// variables.
func (c Config) Validate() error {
	var faults []error
	if c.RetryDelay <= 0 || c.RetryDelay > MaxRetryDelay {
		faults = append(faults, fmt.Errorf("RetryDelay is %v: it must be above 0 and at most %v", c.RetryDelay, MaxRetryDelay))
	}
	if c.MaxRetries < 0 {
		faults = append(faults, fmt.Errorf("MaxRetries is %d: it must not be negative", c.MaxRetries))
	}
	return errors.Join(faults...)
}

// delay returns how long an event waits that was retried so many times before.
func (c Config) delay(retries int) time.Duration {
	return backoff.Doubled(c.RetryDelay, MaxRetryDelay, retries)
}
