package shard

import (
	"math"
	"time"
)

// never is the deadline of nothing.
const never = math.MaxInt64

// policy decides when a window closes. It is a pure function of the window's
// numbers: times are nanoseconds on the shard's clock, first and last those of
// the window's first and last item.
type policy struct {
	idle     int64 // span after the last item
	delay    int64 // span after the first
	early    int64 // how long before that a window may close with another
	size     int
	batching bool
	sealed   bool // a closed window takes no more items
}

func newPolicy(c Config) policy {
	p := policy{
		idle:     int64(c.Window),
		delay:    int64(c.MaxDelay),
		size:     c.MaxSize,
		batching: c.Batching,
		sealed:   c.Clock == EventClock,
	}
	if c.Clock == WallClock {
		p.early = int64(c.Early)
	}
	return p
}

// idleDeadline is the first instant at which a window that stays quiet closes.
func (p policy) idleDeadline(last int64) int64 { return last + p.idle }

// delayDeadline is the first instant at which it closes however busy it is.
func (p policy) delayDeadline(first int64) int64 { return first + p.delay }

// onItem returns the trigger that the window's n-th item fires, or 0.
func (p policy) onItem(n int, prompt bool) Trigger {
	switch {
	case !p.batching, prompt && n == 1:
		return TriggerImmediate
	case n >= p.size:
		return TriggerMaxSize
	default:
		return 0
	}
}

// collects reports whether a window of n items that was closed by fired (0 for
// one that is open) takes another item.
func (p policy) collects(fired Trigger, n int) bool {
	return n < p.size && (fired == 0 || !p.sealed)
}

// horizon bounds times on the event clock to about 146 years around 1970, so
// that adding a span to one cannot overflow.
const horizon = 1<<62 - 1

var earliest, latest = time.Unix(0, -horizon), time.Unix(0, horizon)

// nanos returns t on the event clock. A time before the horizon, such as the
// zero time, never moves the clock.
func nanos(t time.Time) int64 {
	switch {
	case t.Before(earliest):
		return -horizon
	case t.After(latest):
		return horizon
	default:
		return t.UnixNano()
	}
}
