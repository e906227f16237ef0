package shard

import "sync/atomic"

// Stats is a reading of a router's counters. Counters are read one after the
// other: they may be a moment apart.
type Stats struct {
	// Since the start.
	Submitted uint64           // items taken
	Closed    [triggers]uint64 // windows closed, by Trigger
	Flushes   uint64           // handlers that returned
	Batches   uint64           // that they were given
	Items     uint64           // in those batches

	// Now.
	Running      int   // handlers that have not returned
	OpenWindows  int   // windows whose trigger has not fired
	WaitingItems int   // in those windows
	WaitingBytes int64 // in those windows
	HeldItems    int   // from Submit to the handler's return
	HeldBytes    int64 // of those
}

// KeysPerFlush is the mean number of batches a flush carried, 0 before the
// first.
func (s Stats) KeysPerFlush() float64 {
	if s.Flushes == 0 {
		return 0
	}
	return float64(s.Batches) / float64(s.Flushes)
}

// counters is what the actors count. They add to it once per turn or flush,
// never per item.
type counters struct {
	closed                  [triggers]atomic.Uint64
	submitted               atomic.Uint64
	flushes, batches, items atomic.Uint64
	running, open           atomic.Int64
	waiting                 atomicUsage // in open windows
	late                    atomic.Int64
}

// tally is what an actor has added to the counters so far.
type tally struct {
	closed  [triggers]uint64
	open    int64
	waiting usage
}

// publish adds what has changed in the actor's table since the last time.
func (a *actor[K, V]) publish() {
	s, t, p := &a.router.stats, a.table, &a.published
	for trigger, n := range t.closed {
		if n != p.closed[trigger] {
			s.closed[trigger].Add(n - p.closed[trigger])
		}
	}
	if t.open != p.open {
		s.open.Add(t.open - p.open)
	}
	if t.waiting != p.waiting {
		s.waiting.add(t.waiting.minus(p.waiting))
	}
	*p = tally{closed: t.closed, open: t.open, waiting: t.waiting}
}

// Held returns how many items are held: accepted and not done.
func (r *Router[K, V]) Held() int { return int(r.budget.usage().items) }

// Stats reads the counters.
func (r *Router[K, V]) Stats() Stats {
	held, waiting := r.budget.usage(), r.stats.waiting.load()
	s := Stats{
		Submitted:    r.stats.submitted.Load(),
		Flushes:      r.stats.flushes.Load(),
		Batches:      r.stats.batches.Load(),
		Items:        r.stats.items.Load(),
		Running:      int(r.stats.running.Load()),
		OpenWindows:  int(r.stats.open.Load()),
		WaitingItems: int(waiting.items),
		WaitingBytes: waiting.bytes,
		HeldItems:    int(held.items),
		HeldBytes:    held.bytes,
	}
	for trigger := range s.Closed {
		s.Closed[trigger] = r.stats.closed[trigger].Load()
	}
	return s
}
