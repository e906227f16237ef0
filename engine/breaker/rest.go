package breaker

import (
	"context"
	"time"

	"keyfold/engine/backoff"
)

// watchRest probes the store while no calls are made. The probes count as calls: a store
// that fails them, or hangs, opens the breaker.
func (b *Breaker) watchRest() {
	calls := b.Group()
	calls.rest = true
	for wait := b.config.Rest; backoff.Sleep(b.life, wait); {
		if failing := wait < b.config.Rest; !failing && !b.rests() {
			continue
		}
		wait = b.config.Rest
		if b.State().Open {
			continue // it is probed already
		}
		calls.Begin()
		ctx, cancel := context.WithTimeout(b.life, b.config.ProbeTimeout)
		err := b.probe(ctx)
		cancel()
		if b.life.Err() != nil {
			calls.Leave()
			return
		}
		if calls.End(err); err != nil {
			wait = min(b.config.MinPause, b.config.Rest-1)
		}
	}
}

// rests reports whether no call has ended for the time of rest.
func (b *Breaker) rests() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.lastCall) >= b.config.Rest
}
