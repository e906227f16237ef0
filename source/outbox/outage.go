package outbox

import (
	"sync"
	"time"

	"keyfold/engine/backoff"
)

// outage spaces out the attempts of all goroutines while the database or the broker
// is away.
type outage struct {
	mu    sync.Mutex
	err   error
	waits backoff.Backoff
	until time.Time
}

// record notes a failure. It reports false where another goroutine has just met the
// same.
func (t *outage) record(err error, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	if now.Before(t.until) {
		return false
	}
	t.until = now.Add(t.waits.Next())
	return true
}

// clear notes that it went well.
func (t *outage) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = nil
	t.waits.Reset()
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
