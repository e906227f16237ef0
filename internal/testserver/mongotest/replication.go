package mongotest

import (
	"context"
	"sync"
	"time"
)

// replication knows which writes a majority has. Writes are numbered in the
// order in which they are applied; all up to committed have reached a majority.
//
// As long as nothing holds replication up, a write is committed as it is
// applied, and no document keeps a past.
type replication struct {
	mu        sync.Mutex
	stalled   bool
	delay     time.Duration
	applied   uint64
	committed uint64
	pending   []pendingWrite // not committed, oldest first
	lost      []span         // rolled back
	changed   chan struct{}  // closed and made anew when any of this moves
	timer     *time.Timer
	ddl       *sync.RWMutex
}

// pendingWrite is due to commit at a time, unless replication is stalled.
type pendingWrite struct {
	seq uint64
	in  *collection
	of  *record
	due time.Time
}

// span is the writes after from up to to.
type span struct{ from, to uint64 }

func newReplication(ddl *sync.RWMutex) *replication {
	return &replication{changed: make(chan struct{}), ddl: ddl}
}

// next numbers a write on r. keep says that the version it replaces is still
// what a majority has.
func (p *replication) next(c *collection, r *record) (seq uint64, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied++
	if !p.stalled && p.delay == 0 {
		p.committed = p.applied
		return p.applied, false
	}
	p.pending = append(p.pending, pendingWrite{p.applied, c, r, time.Now().Add(p.delay)})
	if !p.stalled && len(p.pending) == 1 {
		p.schedule(p.delay)
	}
	return p.applied, true
}

func (p *replication) committedSeq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.committed
}

func (p *replication) appliedSeq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applied
}

func (p *replication) schedule(after time.Duration) {
	stop(p.timer)
	p.timer = time.AfterFunc(after, p.commitDue)
}

// commitDue commits what has waited its time.
func (p *replication) commitDue() {
	p.ddl.RLock()
	defer p.ddl.RUnlock()
	p.mu.Lock()
	if p.stalled {
		p.mu.Unlock()
		return
	}
	now := time.Now()
	n := 0
	for n < len(p.pending) && !p.pending[n].due.After(now) {
		n++
	}
	if n < len(p.pending) {
		p.schedule(p.pending[n].due.Sub(now))
	}
	p.commit(n)
}

// setMode changes how writes reach a majority from now on. Leaving a stall
// commits what it held up.
func (p *replication) setMode(stalled bool, delay time.Duration) {
	p.ddl.RLock()
	defer p.ddl.RUnlock()
	p.mu.Lock()
	p.stalled, p.delay = stalled, delay
	n := 0
	if !stalled {
		n = len(p.pending)
	}
	p.commit(n)
}

// commit commits the n oldest writes. It is called with the lock and releases
// it: a collection's lock comes before this one.
func (p *replication) commit(n int) {
	done := p.pending[:n:n]
	p.pending = p.pending[n:]
	if n > 0 {
		p.committed = done[n-1].seq
		p.broadcast()
	}
	upTo := p.committed
	p.mu.Unlock()
	for _, w := range done {
		w.in.settle(w.of, upTo)
	}
}

func (p *replication) broadcast() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// discard gives up the writes that no majority has and lets replication run
// again. It returns the last write that stays. The DDL lock is held.
func (p *replication) discard() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = append(p.lost, span{p.committed, p.applied})
	p.pending, p.stalled, p.delay = nil, false, 0
	p.broadcast()
	return p.committed
}

// close stops the timer; nothing is committed any more.
func (p *replication) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = true
	stop(p.timer)
}

// wait returns nil once a majority has the write seq, a failure when it
// never will, and the context's error when that ends first.
func (p *replication) wait(ctx context.Context, seq uint64) error {
	for {
		p.mu.Lock()
		changed := p.changed
		committed := p.committed
		lost := p.isLost(seq)
		p.mu.Unlock()
		switch {
		case lost:
			return fail(codeInterrupted, "operation was interrupted: the write was rolled back")
		case committed >= seq:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *replication) isLost(seq uint64) bool {
	for _, s := range p.lost {
		if seq > s.from && seq <= s.to {
			return true
		}
	}
	return false
}
