package shard

import (
	"context"
	"fmt"
	"time"

	"keyfold/engine/cure"
)

// interruptGrace is how long Drain waits, past its deadline, for handlers to notice that
// their context has ended.
const interruptGrace = time.Second

// DrainError says what a router that stopped early left behind. Unsettled items
// are still their source's and must come again from there.
type DrainError struct {
	// Unsettled items were in no handler, or in one that has not returned.
	Unsettled int
	// Interrupted items were in handlers that returned after their context had
	// ended: the handlers know which of them were settled.
	Interrupted int
	// Cause is the context's error, or the router's failure.
	Cause error
}

// timeoutSetting bounds the drains of a program.
const timeoutSetting cure.Name = "shutdown.Timeout"

// Error names the numbers and the cure.
func (e *DrainError) Error() string {
	return fmt.Sprintf("shard: stopped early with %d items unsettled and %d in interrupted handlers: %v "+
		"(the source delivers them again; a longer %s gives slow handlers more time)",
		e.Unsettled, e.Interrupted, e.Cause, timeoutSetting)
}

// Unwrap returns the cause.
func (e *DrainError) Unwrap() error { return e.Cause }

// Drain stops taking items, closes every window at once, flushes and waits. It
// returns nil when the last handler has returned.
//
// When ctx ends first, no further flush is started, the handlers' context ends,
// they are waited for a moment longer, and a [*DrainError] says what is left;
// a handler that hangs even then keeps its goroutine and its actor's. After a
// failure the DrainError wraps it. Drain may be called again, also while a call
// is waiting.
func (r *Router[K, V]) Drain(ctx context.Context) error {
	r.refuse(ErrDraining)
	for _, a := range r.actors {
		a.mail.close()
	}

	select {
	case <-r.stopped:
		return r.remains(r.Err())
	case <-ctx.Done():
	}
	r.stop()
	r.cancel(context.Cause(ctx))
	moment := time.NewTimer(interruptGrace)
	defer moment.Stop()
	select {
	case <-r.stopped:
	case <-moment.C:
	}
	return r.remains(context.Cause(ctx))
}

// remains reports what was not settled, nil when everything was.
func (r *Router[K, V]) remains(cause error) error {
	left := DrainError{
		// Not what the budget holds: a Submit that was refused at the gate may
		// not have given its room back yet.
		Unsettled:   int(r.stats.submitted.Load() - r.stats.items.Load()),
		Interrupted: int(r.stats.late.Load()),
		Cause:       cause,
	}
	if err := r.Err(); err != nil {
		left.Cause = err
	} else if left.Unsettled == 0 && left.Interrupted == 0 {
		return nil
	}
	if left.Cause == nil { // an earlier Drain ran out of time
		left.Cause = context.Cause(r.ctx)
	}
	return &left
}

// refuse makes every Submit that has not handed over yet return err.
func (r *Router[K, V]) refuse(err error) {
	r.gate.Lock()
	defer r.gate.Unlock()
	if failure := r.Err(); failure != nil {
		err = failure // which outranks draining
	}
	r.refusal = err
	r.budget.close(err)
}

// stop makes the actors start no further flush.
func (r *Router[K, V]) stop() { r.haltOnce.Do(func() { close(r.halt) }) }

// fail stops the router for good. Flushes that run may finish; what else is
// held stays unsettled.
func (r *Router[K, V]) fail(err error) {
	r.failOnce.Do(func() {
		r.stop()
		r.failure = err
		close(r.failed)
	})
	r.refuse(err)
}

// Failed is closed when the router has failed: a handler panicked. No further
// flush is started, and what is held stays unsettled.
func (r *Router[K, V]) Failed() <-chan struct{} { return r.failed }

// Err returns why the router failed, with the stack, or nil while it has not.
func (r *Router[K, V]) Err() error {
	select {
	case <-r.failed:
		return r.failure
	default:
		return nil
	}
}
