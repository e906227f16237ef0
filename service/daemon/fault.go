package daemon

import (
	"sync"
	"time"

	"keyfold/engine"
)

// FaultPause is how long a worker does not consume after a configuration fault,
// before it tries whether an operator has cured it.
const FaultPause = 30 * time.Second

// configFault is the configuration fault that keeps the worker from consuming.
type configFault struct {
	mu      sync.Mutex
	current error     // nil while the worker tries whether it is cured
	last    error     // also once it is cured
	began   time.Time // zero: none, also not one that is tried
	next    *time.Timer
	stopped bool
}

// continues reports whether a fault that comes now is the one before, which goes on.
// f.mu is held.
func (f *configFault) continues(err error) bool {
	return !f.began.IsZero() && engine.ReasonOf(f.last) == engine.ReasonOf(err)
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
