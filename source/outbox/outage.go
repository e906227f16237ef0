package outbox

import (
	"sync"
	"time"

	"keyfold/engine/backoff"
	"keyfold/engine/terse"
)

// outage spaces out the attempts of all goroutines while the database or the broker
// is away.
type outage struct {
	mu    sync.Mutex
	err   error
	waits backoff.Backoff
	until time.Time
	spell terse.Fault
}

// record notes a failure. It reports whether to log it, and for how long the attempts
// pause.
func (t *outage) record(err error, now time.Time) (begins bool, pause time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	if !now.Before(t.until) { // else another goroutine has just met the same
		t.until = now.Add(t.waits.Next())
	}
	return t.spell.Begins(err), t.until.Sub(now)
}

// clear notes that it went well. It reports whether that ends an outage, and how long
// that lasted.
func (t *outage) clear() (lasted time.Duration, was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = nil
	t.waits.Reset()
	return t.spell.Ends()
}

func (t *outage) pause(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until.Sub(now)
}

func (t *outage) fault() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
