package consume

import (
	"maps"
	"sync"

	"keyfold/engine"
)

// Accounting accounts for every delivery of a consumer: what was received is settled by one
// outcome, returned to the broker, or in hand. An [Accounting.Read] finds this sum exact at any
// moment, because each step is one change under one lock.
type Accounting struct {
	mu     sync.Mutex
	totals Totals
}

// Totals are the accounting of a consumer at one moment.
type Totals struct {
	Received int64 // deliveries
	// Settled are the deliveries whose acknowledgement was handed over for sending, by
	// outcome: of a retried or parked one a copy is confirmed in a delay queue, of a dead
	// one its dead letter.
	Settled [engine.Decided + 1]int64
	// Returned are those that the broker took back unsettled, as their channel ended.
	Returned int64
	// InHand are those that are neither.
	InHand int64
	// Dead are the deliveries settled as dead letters, by the reason.
	Dead map[string]int64
}

// Read returns one consistent reading.
func (b *Accounting) Read() Totals {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.totals
	t.Dead = maps.Clone(t.Dead)
	return t
}

// Sum returns how many deliveries are settled, returned or in hand: as many as were received.
func (t *Totals) Sum() int64 {
	sum := t.Returned + t.InHand
	for _, n := range t.Settled {
		sum += n
	}
	return sum
}

// Processed returns how many deliveries are done with, without dead letters and those that
// come again.
func (t *Totals) Processed() (n int64) {
	for o, settled := range t.Settled {
		if engine.Outcome(o).Settlement() == engine.Ack {
			n += settled
		}
	}
	return n
}

// receive counts a delivery; one whose channel has ended meanwhile is the broker's already.
func (b *Accounting) receive(ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Received++
	if ended {
		b.totals.Returned++
	} else {
		b.totals.InHand++
	}
}

func (b *Accounting) settle(end settlement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.InHand--
	b.totals.Settled[end.outcome]++
	if end.outcome != engine.Dead {
		return
	}
	if b.totals.Dead == nil {
		b.totals.Dead = map[string]int64{}
	}
	b.totals.Dead[end.reason]++
}

func (b *Accounting) giveBack(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.InHand -= n
	b.totals.Returned += n
}

// settlement is how a delivery ended.
type settlement struct {
	outcome engine.Outcome
	reason  string // of a dead letter
}
