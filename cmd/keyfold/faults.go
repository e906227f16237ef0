package main

import (
	"log/slog"
	"sync"
	"time"

	"keyfold/engine/breaker"
)

// faultPause is how long the daemon stays off the queue after a configuration
// fault before it looks whether somebody has cured it.
const faultPause = 30 * time.Second

// faults remembers the configuration fault the daemon stands on.
type faults struct {
	mu      sync.Mutex
	current error
	retry   *time.Timer
	stopped bool
}

// fault stops consuming: no event is to blame, so none is dead-lettered, and
// none is tried until somebody had time for the cure.
func (w *worker) fault(err error) {
	f := &w.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil || f.stopped {
		return
	}
	f.current = err
	w.log.Error("configuration fault: not consuming; nothing is lost", slog.Duration("looking_again_in", faultPause), slog.Any("error", err))
	w.brake.set(w.consumer, faultFound, true)
	f.retry = time.AfterFunc(faultPause, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.stopped {
			return
		}
		// Under the lock: a fault that comes now must find the consumer
		// resumed, and pause it again.
		f.current = nil
		w.brake.set(w.consumer, faultFound, false)
	})
}

// err returns the fault, nil where there is none.
func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current
}

// stop ends the waiting for a cure.
func (f *faults) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	if f.retry != nil {
		f.retry.Stop()
	}
}

// storeChanged follows the store's breaker: while it is open nothing new is
// taken in, and what is held for too long goes back to the broker.
func (w *worker) storeChanged(s breaker.State) {
	switch {
	case !s.Open:
		w.log.Info("store answers again: consuming")
	case s.Expired:
		w.log.Warn("store still away: held events go back to the broker", slog.Time("since", s.Since), slog.Any("error", s.Cause))
		w.consumer.GiveBack()
	default:
		w.log.Error("store away: not consuming, holding what is here; nothing is lost",
			slog.Duration("for_at_most", w.config.Breaker.HoldMax), slog.Any("error", s.Cause))
	}
	w.brake.set(w.consumer, storeAway, s.Open)
}

// brakeReason is why the daemon does not consume. They are independent: it
// consumes again when the last one is gone.
type brakeReason uint8

const (
	faultFound brakeReason = 1 << iota
	storeAway
)

// brake pauses a consumer while there is a reason to.
type brake struct {
	mu      sync.Mutex
	reasons brakeReason
}

// pausing is what a brake needs of a consumer.
type pausing interface {
	Pause()
	Resume()
}

func (b *brake) set(c pausing, reason brakeReason, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.reasons
	if on {
		b.reasons |= reason
	} else {
		b.reasons &^= reason
	}
	switch {
	case before == 0 && b.reasons != 0:
		c.Pause()
	case before != 0 && b.reasons == 0:
		c.Resume()
	}
}
