package outbox

import (
	"sync"
	"time"

	"keyfold/engine/backoff"
)

// trouble spaces out the attempts of all lanes while the database or the broker
// is away.
type trouble struct {
	mu    sync.Mutex
	err   error
	waits backoff.Backoff
	until time.Time
}

// meet notes a failure. It reports false where another lane has just met the
// same.
func (t *trouble) meet(err error, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	if now.Before(t.until) {
		return false
	}
	t.until = now.Add(t.waits.Next())
	return true
}

// pass notes that it went well.
func (t *trouble) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = nil
	t.waits.Reset()
}

func (t *trouble) pause(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until.Sub(now)
}

func (t *trouble) fault() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
