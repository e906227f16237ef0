package ingest

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
	// answer of "not ready", unless a later one is stored. After that requests
	// are let in again: only they show whether the store can be written to.
	failureHold = 10 * time.Second
)

// readiness reports whether events can be stored. It looks at the store once an
// interval at most, however often it is asked.
type readiness struct {
	look func(context.Context) error // nil: only the last request counts

	failure atomic.Pointer[failure] // of the last request; nil: it was stored

	mu     sync.Mutex // for the fields below
	looked time.Time
	found  error
}

// failure is a request that the store failed.
type failure struct {
	at  time.Time
	err error
}

// stored notes the outcome of a request that reached the store.
func (r *readiness) stored(err error) {
	if err != nil {
		r.failure.Store(&failure{at: time.Now(), err: fmt.Errorf("a request failed: %w", err)})
	} else if r.failure.Load() != nil {
		r.failure.Store(nil)
	}
}

// fault returns why events cannot be stored now.
func (r *readiness) fault() error {
	if f := r.failure.Load(); f != nil && time.Since(f.at) < failureHold {
		return f.err
	}
	if r.look == nil {
		return nil
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
