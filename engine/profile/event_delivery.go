package profile

import (
	"context"
	"slices"
	"time"

	"keyfold/engine"
)

// Delivery is an event on its way through a worker.
type Delivery struct {
	Event Event
	// FirstSeen is the store's time before which the event is known not to be
	// folded. It stands in what may wait for longer than a profile keeps ids for
	// sure: retried, replayed and backfilled events. 0 for what comes straight
	// from a broker, new or again; see [Applied.PastHorizon].
	FirstSeen engine.Millis
	// Arrived is when a broker delivered the event: it may be folded until
	// [Delivery.Age] exceeds the worker's lease, and comes again after that. Zero
	// where there is no broker that could deliver it to another worker.
	Arrived time.Time
	// Attempt counts from 1; 0 where the source does not count.
	Attempt int
	// Last: no attempt follows this one. The source tells of the dead letter.
	Last bool
	// RetryDelay is how long a source lets the event wait after a verdict Retry
	// on this attempt; 0 where the source does not say.
	RetryDelay time.Duration
	// Place is where a stream has the event; zero where it came by none. Reader read it
	// there, in a chunk that the broker appended at Appended by its clock; nil where a queue
	// brought a copy of it.
	Place    Place
	Reader   Reader
	Appended engine.Millis
	// Trace names the request that the event came with, for logs; nil without one.
	Trace *engine.Trace
	// Bytes is what the source keeps in memory until the verdict, beside Event.
	Bytes   int
	Settler engine.Settler
}

// Held is a delivery while it waits in its window, of which nothing is read there. A settler
// that is one makes its delivery again, from less than the delivery takes: most of what a
// worker holds waits in windows. Nothing else may change a delivery that has such a settler.
type Held interface {
	// Delivery returns the delivery. It is not called after the verdict.
	Delivery() Delivery
}

// Delivery implements [Held].
func (d *Delivery) Delivery() Delivery { return *d }

// Hold returns what a window holds of a delivery: a copy, unless its settler makes it again.
func (d *Delivery) Hold() (held Held, whole bool) {
	if held, ok := d.Settler.(Held); ok {
		return held, false
	}
	own := *d
	return &own, true
}

// Deliver hands deliveries on from where they were read. It may block. nil means
// that each of them will be settled; an error means that none was taken, or that the
// program stops. The slice is the caller's again when Deliver returns.
type Deliver func(ctx context.Context, deliveries []Delivery) error

// Age returns how long the delivery has been here, 0 without Arrived. A machine
// that was suspended may have stopped the monotonic clock, and one whose clock was
// set the other: the longer time counts.
func (d *Delivery) Age(now time.Time) time.Duration {
	if d.Arrived.IsZero() {
		return 0
	}
	return max(now.Sub(d.Arrived), now.Round(0).Sub(d.Arrived.Round(0)))
}

// Batch is one user's closed window.
type Batch struct {
	UserID     int32
	Deliveries []Delivery
}

// Sort puts the batch into folding order: (occurred_at, message_id).
func (b *Batch) Sort() {
	slices.SortStableFunc(b.Deliveries, func(x, y Delivery) int { return x.Event.Compare(&y.Event) })
}
