package rabbit

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

// RetryDelay returns how long an event waits that was retried so many times
// before.
func RetryDelay(first time.Duration, retries int) time.Duration {
	return backoff.Doubled(first, engine.MaxRetryDelay, retries)
}

// RetryDelays returns the different delays of so many retries, the shortest
// first: 5 s and 5 retries give 5, 10, 20, 40 and 60 s. There is at least one, for
// events that are parked.
func RetryDelays(first time.Duration, retries int) []time.Duration {
	var delays []time.Duration
	for n := range max(retries, 1) {
		d := RetryDelay(first, n)
		if n > 0 && d == delays[len(delays)-1] {
			break
		}
		delays = append(delays, d)
	}
	return delays
}
