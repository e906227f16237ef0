package shard

import (
	"container/list"
	"context"
	"sync"
)

// budget bounds what is held between Submit and the handler's return, in items
// and in bytes at once. A weighted semaphore per dimension would let a caller
// sit on items while it waits for bytes; here a chunk gets all of its room or
// none, first come, first served.
type budget struct {
	limit usage
	// demand is what the first waiter asks for, 0 while none waits. Written
	// under mu, read by anyone.
	demand atomicUsage
	// onDemand is called, without mu, after demand grew.
	onDemand func()

	mu      sync.Mutex
	held    usage     // guarded by mu
	waiters list.List // of *waiter, guarded by mu
	refusal error     // guarded by mu; set once the budget is closed
}

type waiter struct {
	need  usage
	ready chan struct{} // closed when the waiter leaves the list
	err   error         // written before ready is closed
}

// acquire takes room for need, waiting for it until ctx ends or the budget is
// closed. What exceeds the whole limit is let in alone.
func (b *budget) acquire(ctx context.Context, need usage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	if b.refusal != nil {
		defer b.mu.Unlock()
		return b.refusal
	}
	if b.waiters.Len() == 0 && b.fits(need) {
		b.held = b.held.plus(need)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{need: need, ready: make(chan struct{})}
	place := b.waiters.PushBack(w)
	b.publish()
	b.mu.Unlock()
	b.onDemand()

	select {
	case <-w.ready:
		return w.err
	case <-ctx.Done():
		return b.abandon(ctx, w, place)
	}
}

// abandon gives up w's place, unless it was served in the meantime.
func (b *budget) abandon(ctx context.Context, w *waiter, place *list.Element) error {
	b.mu.Lock()
	select {
	case <-w.ready:
		b.mu.Unlock()
		return w.err
	default:
	}
	b.waiters.Remove(place)
	b.admit()
	b.mu.Unlock()
	b.onDemand()
	return ctx.Err()
}

// release gives room back and serves those who wait for it.
func (b *budget) release(a usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = b.held.minus(a)
	b.admit()
}

// close refuses everyone with err from now on, those who wait included.
func (b *budget) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = err
	for e := b.waiters.Front(); e != nil; e = b.waiters.Front() {
		w := b.waiters.Remove(e).(*waiter)
		w.err = err
		close(w.ready)
	}
	b.publish()
}

// usage returns what is held.
func (b *budget) usage() usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// admit serves waiters in their order while they fit. The first one that does
// not holds up the rest: letting small chunks past would starve it.
func (b *budget) admit() {
	for e := b.waiters.Front(); e != nil; e = b.waiters.Front() {
		w := e.Value.(*waiter)
		if !b.fits(w.need) {
			break
		}
		b.waiters.Remove(e)
		b.held = b.held.plus(w.need)
		close(w.ready)
	}
	b.publish()
}

// publish makes the first waiter's need known.
func (b *budget) publish() {
	first := usage{}
	if e := b.waiters.Front(); e != nil {
		first = e.Value.(*waiter).need
	}
	b.demand.store(first)
}

func (b *budget) fits(need usage) bool {
	return b.held.items == 0 || b.held.plus(need).within(b.limit)
}
