package dashboard

import (
	"context"
	"sync"
	"time"
)

const (
	maxKept   = 64               // results
	keepFor   = 30 * time.Second // a result: the catalogue may change without the profile
	retryWait = 2 * time.Second  // after an error
	mostWork  = 2                // computations at once
	workBound = time.Minute      // of one computation
	patience  = 2500 * time.Millisecond
)

// results computes what takes long once for all viewers, and keeps it for a while. A computation
// goes on when the request that began it is over.
type results struct {
	now  func() time.Time
	ctx  context.Context
	stop context.CancelFunc
	room chan struct{}
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	all    map[resultKey]*result
}

// resultKey names a result.
type resultKey struct {
	user    int32
	version int32 // of the profile
	what    string
}

type result struct {
	done  chan struct{} // closed once value, err and at are set
	value any
	err   error
	at    time.Time
}

func newResults(now func() time.Time) *results {
	k := &results{now: now, room: make(chan struct{}, mostWork), all: map[resultKey]*result{}}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// close ends all computations and waits for them.
func (k *results) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.work.Wait()
}

// get returns the result under a key, which it has computed where there is none that is young
// enough; nil: it is not there yet.
func (k *results) get(ctx context.Context, key resultKey, compute func(context.Context) (any, error)) *result {
	r := k.begin(key, compute)
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-r.done:
		return r
	case <-wait.C:
	case <-ctx.Done():
	}
	return nil
}

func (k *results) begin(key resultKey, compute func(context.Context) (any, error)) *result {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.all[key]; r != nil && !r.stale(k.now()) {
		return r
	}
	k.makeRoom()
	r := &result{done: make(chan struct{})}
	k.all[key] = r
	if k.closed {
		r.err = context.Canceled
		close(r.done)
		return r
	}
	k.work.Go(func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(k.ctx, workBound)
		defer cancel()
		select {
		case k.room <- struct{}{}:
			defer func() { <-k.room }()
			r.value, r.err = compute(ctx)
		case <-ctx.Done():
			r.err = ctx.Err()
		}
		r.at = k.now()
	})
	return r
}

// stale reports whether a result is to be computed anew. One under way is not.
func (r *result) stale(now time.Time) bool {
	select {
	case <-r.done:
	default:
		return false
	}
	if r.err != nil {
		return now.Sub(r.at) >= retryWait
	}
	return now.Sub(r.at) >= keepFor
}

// makeRoom drops what is stale, and where that is not enough any result that is there.
func (k *results) makeRoom() {
	if len(k.all) < maxKept {
		return
	}
	now, spare := k.now(), resultKey{}
	for key, r := range k.all {
		select {
		case <-r.done:
			if spare = key; r.stale(now) {
				delete(k.all, key)
			}
		default:
		}
	}
	if len(k.all) >= maxKept {
		delete(k.all, spare)
	}
}
