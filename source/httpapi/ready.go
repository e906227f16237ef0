package httpapi

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readyTimeout bounds a look at the store.
	readyTimeout = 2 * time.Second
	// readyInterval is how long the answer of a look is good for.
	readyInterval = time.Second
	// failureHold is how long a request that the store failed makes for an
	// answer of "not ready", unless a later one succeeds. After that requests
	// are let in again: only they show whether the store can be written to.
	failureHold = 10 * time.Second
)

// readiness reports whether requests can be answered. It looks at the store, or what
// else the application needs, once an interval at most, however often it is asked.
type readiness struct {
	look func(context.Context) error

	failure atomic.Pointer[failure] // of the last request; nil: it succeeded

	mu     sync.Mutex // for the fields below
	looked time.Time
	found  error
}

// failure is a request that the store failed.
type failure struct {
	at  time.Time
	err error
}

// met notes the outcome of a request that needed the store.
func (r *readiness) met(err error) {
	if err != nil {
		r.failure.Store(&failure{at: time.Now(), err: fmt.Errorf("a request failed: %w", err)})
	} else if r.failure.Load() != nil {
		r.failure.Store(nil)
	}
}

// fault returns why requests cannot be answered now.
func (r *readiness) fault() error {
	if f := r.failure.Load(); f != nil && time.Since(f.at) < failureHold {
		return f.err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looked.IsZero() || time.Since(r.looked) >= readyInterval {
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		r.found, r.looked = r.look(ctx), time.Now()
	}
	return r.found
}
