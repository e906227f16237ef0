package main

import (
	"log/slog"
	"sync"
	"time"
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
	w.consumer.Pause()
	f.retry = time.AfterFunc(faultPause, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.stopped {
			return
		}
		// Under the lock: a fault that comes now must find the consumer
		// resumed, and pause it again.
		f.current = nil
		w.consumer.Resume()
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
