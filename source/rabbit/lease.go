package rabbit

import (
	"errors"
	"sync"
	"time"
)

// errOverdue ends a session that has held a delivery for longer than its lease.
// Profiles keep the ids of folded events for some leases: what is not settled by
// then has to come again while its id is still there.
var errOverdue = errors.New("rabbitmq: a message was not settled within its lease; the broker delivers it again")

// arrivals tell about when a channel's deliveries came, in one entry a second.
type arrivals struct {
	mu      sync.Mutex
	entries []arrival // guarded by mu; in the order of tags
}

type arrival struct {
	tag uint64 // the first one that came then
	at  time.Time
}

// arrivalStep is how far apart two entries are at least.
const arrivalStep = time.Second

func (a *arrivals) add(tag uint64, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.entries); n == 0 || at.Sub(a.entries[n-1].at) >= arrivalStep {
		a.entries = append(a.entries, arrival{tag, at})
	}
}

// of returns when the delivery of a tag came, at the latest a step later, and
// forgets what came before; ok is false where it did not come yet.
func (a *arrivals) of(tag uint64) (at time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.entries) > 1 && a.entries[1].tag <= tag {
		a.entries = a.entries[1:]
	}
	if len(a.entries) == 0 {
		return time.Time{}, false
	}
	return a.entries[0].at, true
}

// overdue reports whether the lane's oldest unacknowledged delivery has been here
// for longer than the lease.
func (l *lane) overdue(lease time.Duration) bool {
	if l.unacked.Load() == 0 {
		return false
	}
	at, ok := l.ages.of(l.acks.below.Load() + 1)
	return ok && time.Since(at) > lease
}

// watchLeases ends the session when a delivery's lease is over.
func (s *session) watchLeases(lease time.Duration) {
	look := time.NewTicker(max(lease/50, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-look.C:
			for _, l := range s.lanes {
				if l.overdue(lease) {
					s.consumer.Stats.Overdue.Add(1)
					s.end(errOverdue)
					return
				}
			}
		case <-s.ended:
			return
		}
	}
}
