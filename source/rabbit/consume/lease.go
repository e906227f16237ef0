package consume

import (
	"sync"
	"sync/atomic"
	"time"

	"keyfold/engine/cure"
)

// errOverdue ends a session that has held a delivery for longer than its lease.
// Profiles keep the ids of folded events for some leases: what is not settled by
// then has to come again while its id is still there.
var errOverdue = cure.New("rabbitmq: a message was not settled within its lease; the broker delivers it again; "+
	"if this repeats, what its events go to (the store, the embedding service, their partition) is away, or too slow for so many at a time: lower %s", "consume.Config.Prefetch")

// lease is when a delivery's lease began, by [clock]; 0 while it has none.
type lease struct{ began atomic.Int64 }

// started is where the process's monotonic time begins.
var started = time.Now()

// clock returns the process's monotonic time, above 0.
func clock() int64 { return int64(time.Since(started)) + 1 }

func (l *lease) begin() { l.began.Store(clock()) }
func (l *lease) end()   { l.began.Store(0) }

// leases are those of one channel's deliveries. They know nothing of the
// deliveries, so that a message is not kept alive by its lease.
type leases struct {
	mu   sync.Mutex
	all  []*lease // guarded by mu; ended ones stay for a while
	full int      // guarded by mu: how many there may be before ended ones go
}

const fewLeases = 256

// begin returns the lease of a new delivery.
func (l *leases) begin() *lease {
	added := &lease{}
	added.begin()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) >= l.full {
		l.forget()
	}
	l.all = append(l.all, added)
	return added
}

// forget drops the leases that have none. The caller holds mu.
func (l *leases) forget() {
	running := l.all[:0]
	for _, each := range l.all {
		if each.began.Load() != 0 {
			running = append(running, each)
		}
	}
	clear(l.all[len(running):])
	l.all = running
	l.full = max(fewLeases, 2*len(running))
}

// oldest returns for how long the oldest lease has run, 0 where none does.
func (l *leases) oldest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock()
	first := now
	for _, each := range l.all {
		if began := each.began.Load(); began != 0 {
			first = min(first, began)
		}
	}
	return time.Duration(now - first)
}

// watchLeases ends the session when the lease of a delivery is over.
func (s *session) watchLeases(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.ended:
			return
		}
		oldest := time.Duration(0)
		for _, l := range s.live() {
			oldest = max(oldest, l.leases.oldest())
		}
		if oldest >= most {
			s.stats.Overdue.Add(1)
			s.end(errOverdue)
			return
		}
		timer.Reset(most - oldest) // no other lease can be over before
	}
}
