package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
)

// faultPause is how long the worker does not consume after a configuration fault,
// before it tries whether an operator has cured it.
const faultPause = 30 * time.Second

// configFault is the configuration fault that keeps the worker from consuming.
type configFault struct {
	mu      sync.Mutex
	current error     // nil while the worker tries whether it is cured
	last    error     // also once it is cured
	began   time.Time // zero: none, also not one that is tried
	next    *time.Timer
	stopped bool
}

// faultFound pauses the consumer. No event caused the fault, so none is dead-lettered,
// and none is tried again before the pause is over.
func (w *Worker) faultFound(err error) {
	f := &w.fault
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil || f.stopped {
		return
	}
	// One that comes soon after a pause is the fault before, which goes on.
	if f.began.IsZero() || engine.ReasonOf(f.last) != engine.ReasonOf(err) {
		w.ports.Log.Error("consumer paused by a configuration fault", slog.Duration("retry_in", faultPause), slog.Any("error", err))
	}
	if f.began.IsZero() {
		f.began = time.Now()
	}
	f.current, f.last = err, err
	w.pause.set(w.consumer, badConfiguration, true)
	f.after(faultPause, w.tryConsuming)
}

// tryConsuming resumes the consumer. If no fault comes for a while, the last one is over.
// The lock is held: a fault that comes now must find the consumer resumed, and pause
// it again.
func (w *Worker) tryConsuming() {
	f, resumed := &w.fault, time.Now()
	f.current = nil
	w.pause.set(w.consumer, badConfiguration, false)
	f.after(faultPause, func() {
		if f.current == nil {
			w.ports.Log.Info("the configuration fault is over: the consumer goes on", slog.Duration("away_for", resumed.Sub(f.began)))
			f.began = time.Time{}
		}
	})
}

// after calls do, under the lock, in place of what was to be called next. f.mu is held.
func (f *configFault) after(pause time.Duration, do func()) {
	if f.next != nil {
		f.next.Stop()
	}
	f.next = time.AfterFunc(pause, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.stopped {
			do()
		}
	})
}

// err returns the fault that the worker waits for the cure of, nil for none.
func (f *configFault) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current
}

// newest returns the last fault that was found, nil for none.
func (f *configFault) newest() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// stop ends the waiting for a cure.
func (f *configFault) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	if f.next != nil {
		f.next.Stop()
	}
}

// probe asks whether the store takes writes again. A store that was emptied meanwhile
// answers with a configuration fault, which is told with its cure: no time ends it.
func (w *Worker) probe(ctx context.Context) error {
	err := w.store.Probe(ctx)
	if engine.KindOf(err) == engine.Configuration {
		w.faultFound(err)
	}
	return err
}

// storeChanged follows the store's breaker: while it is open the worker consumes
// nothing, and events that it has held for too long go back to the broker.
func (w *Worker) storeChanged(s breaker.State) {
	log := w.ports.Log
	switch {
	case !s.Open:
		if lasted, was := w.storeFault.Ends(); was {
			log.Info("store is back: consumer resumed", slog.Duration("away_for", lasted))
		}
	case s.Expired:
		log.Warn("store still down: held events go back to the broker", slog.Time("since", s.Since), slog.Any("error", s.Cause))
		w.consumer.GiveBack()
	default:
		if w.storeFault.Begins(s.Cause) {
			log.Error("store down: consumer paused, received events are held",
				slog.Duration("hold_max", w.config.Breaker.HoldMax), slog.Any("error", s.Cause),
				slog.String("hint", "see that MongoDB runs and MONGODB_URI is right; the worker goes on by itself, and no event is lost"))
		}
	}
	w.pause.set(w.consumer, storeAway, s.Open)
}

// pauseReason is a reason not to consume.
type pauseReason uint8

const (
	badConfiguration pauseReason = 1 << iota
	storeAway
)

// consumerPause pauses a consumer while there is at least one reason to. The reasons
// are independent of each other.
type consumerPause struct {
	mu      sync.Mutex
	reasons pauseReason
}

// pauser is the part of a consumer that a consumerPause uses.
type pauser interface {
	Pause()
	Resume()
}

func (p *consumerPause) set(c pauser, reason pauseReason, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.reasons
	if on {
		p.reasons |= reason
	} else {
		p.reasons &^= reason
	}
	switch {
	case before == 0 && p.reasons != 0:
		c.Pause()
	case before != 0 && p.reasons == 0:
		c.Resume()
	}
}
