package engine

import "time"

// MaxRetryDelay bounds the delay between two attempts at an event.
const MaxRetryDelay = time.Minute

// CheckRetries judges how many retries follow the first attempt, and the delay before
// the first of them.
func CheckRetries(retries int, delay time.Duration) error {
	var faults Faults
	faults.If(retries < 0 || retries > 100, "MaxRetries is %d: it must be between 0 and 100", retries)
	faults.If(delay < time.Millisecond || delay > MaxRetryDelay,
		"RetryDelay is %v: it must be between 1 and %d (milliseconds)", delay, MaxRetryDelay.Milliseconds())
	return faults.Err()
}
