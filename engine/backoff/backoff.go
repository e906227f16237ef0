// Package backoff spaces out attempts at what fails for now.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff draws each wait from the upper half of a span that doubles from Min up
// to Max, so that workers that lost a server at the same time do not come back at
// the same time. It is not safe for concurrent use.
type Backoff struct {
	Min, Max time.Duration
	span     time.Duration
}

// Next returns the wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.span = min(max(b.Min, 2*b.span), b.Max)
	return Jitter(b.span)
}

// Reset makes the next wait the shortest.
func (b *Backoff) Reset() { b.span = 0 }

// Jitter returns a wait from the upper half of a span.
func Jitter(span time.Duration) time.Duration { return span/2 + rand.N(span/2+1) }

// Doubled returns first, doubled so many times, and longest at most.
func Doubled(first, longest time.Duration, times int) time.Duration {
	for ; times > 0 && first < longest; times-- {
		first *= 2
	}
	return min(first, longest)
}

// Sleep waits for d and reports whether ctx lasted that long.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
