package rabbit

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces out attempts: each wait is drawn from the upper half of a span
// that doubles, so that the workers a broker lost together do not come back
// together.
type backoff struct {
	min, max time.Duration
	span     time.Duration
}

// next returns the wait before the next attempt.
func (b *backoff) next() time.Duration {
	b.span = min(max(b.min, 2*b.span), b.max)
	return b.span/2 + rand.N(b.span/2+1)
}

// reset makes the next wait the shortest.
func (b *backoff) reset() { b.span = 0 }

// sleep waits for d and reports whether ctx lasted that long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
