package outbox

import (
	"math/rand/v2"
	"sync"
	"time"
)

// trouble spaces out the attempts of all lanes while the database or the broker
// is away.
type trouble struct {
	first, longest time.Duration

	mu    sync.Mutex
	err   error
	span  time.Duration
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
	t.span = min(max(t.first, 2*t.span), t.longest)
	t.until = now.Add(t.span/2 + rand.N(t.span/2+1))
	return true
}

// pass notes that it went well.
func (t *trouble) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.span = nil, 0
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
