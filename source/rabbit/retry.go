package rabbit

import "time"

// Retries keeps an event whose own work failed for now until it is to be tried
// again.
type Retries interface {
	// Park takes an attempt over. It is called from the settling goroutine and
	// must not block. Once its delay is over, exactly one of the attempt's
	// methods Again and Replaced follows; or neither, where the process stops.
	Park(a Attempt)
}

// Attempt is the next attempt of one event. Its message stays unacknowledged
// until the attempt is replaced or its verdict is final.
type Attempt struct {
	Delay   time.Duration
	settler *settler
}

// Message returns what the broker delivered.
func (a Attempt) Message() *Original { return &a.settler.message }

// Again delivers the event once more. Where its session has ended the broker
// has delivered it already.
func (a Attempt) Again() { a.settler.session.requeue(a.settler) }

// Replaced acknowledges the message: a copy, confirmed by the broker, took its
// place.
func (a Attempt) Replaced() {
	a.settler.session.occupy()
	a.settler.ack()
}

// InProcess keeps parked events in memory, unacknowledged. They take prefetch
// as long as they wait, and a lost connection gives them back with no attempt
// counted. Their leases begin anew when they are delivered: what takes long
// meanwhile is not the worker's.
type InProcess struct{}

// Park delivers the event again after the attempt's delay.
func (InProcess) Park(a Attempt) {
	a.settler.session.waitingInProcess.Add(1)
	a.settler.lease.end()
	time.AfterFunc(a.Delay, a.Again)
}
