package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// look is a snapshot of the partitions' queues at the broker.
type look struct {
	at     time.Time   // when the look began
	live   []int       // process ids of the workers
	queues []partition // by number; those of the current number of partitions, then retired ones
	active int         // how many partitions there are
}

// partition is the state of one queue.
type partition struct {
	owner    int // process id of the worker that the broker delivers to; 0: none
	ready    int // messages that wait for a worker
	messages int // ready or with a worker
}

// even reports whether each partition has an owner that runs, and no worker has two
// more than another.
func (l *look) even() bool {
	owned := map[int]int{}
	for _, pid := range l.live {
		owned[pid] = 0
	}
	for _, p := range l.queues[:min(l.active, len(l.queues))] {
		if _, runs := owned[p.owner]; !runs {
			return false
		}
		owned[p.owner]++
	}
	counts := slices.Collect(maps.Values(owned))
	return len(counts) > 0 && len(l.queues) >= l.active && slices.Max(counts)-slices.Min(counts) <= 1
}

// drained reports whether the retired partitions hold no message.
func (l *look) drained() bool {
	for _, p := range l.queues[min(l.active, len(l.queues)):] {
		if p.messages > 0 {
			return false
		}
	}
	return true
}

// change is a worker that came or went, or a new number of partitions.
type change struct {
	do    action
	at    time.Time
	even  span // until the partitions were spread evenly, and stayed so
	empty span // until the retired partitions were empty, and stayed so
}

// span is how long something took that has to hold from then on.
type span struct {
	took  time.Duration
	holds bool
}

// see records whether the condition holds at a look, and how long after the change.
func (s *span) see(holds bool, after time.Duration) {
	if holds && !s.holds {
		s.took = after
	}
	s.holds = holds
}

func (s span) String() string {
	if !s.holds {
		return "not before the next change"
	}
	return s.took.Round(10 * time.Millisecond).String()
}

// wait is how long messages of one partition have waited in one stretch.
type wait struct {
	since   time.Time // the last look that saw none waiting
	owner   int       // of that look
	moved   bool      // the partition has had another owner since then
	waiting bool
}

// watch follows the partitions over a run. Its methods may be called from several
// goroutines.
type watch struct {
	mu      sync.Mutex
	changes []*change
	waits   map[int]*wait // by partition
	moved   time.Duration // the longest wait in a partition that moved meanwhile
	stayed  time.Duration // the longest wait in a partition that kept its owner
	last    look
	looks   int
}

func newWatch() *watch { return &watch{waits: map[int]*wait{}} }

// changed notes a change that is about to happen.
func (w *watch) changed(do action, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, &change{do: do, at: at})
}

// see takes a look in. A look that began before the latest change says nothing of it.
func (w *watch) see(l look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.changes); n > 0 && l.at.After(w.changes[n-1].at) {
		c := w.changes[n-1]
		c.even.see(l.even(), l.at.Sub(c.at))
		c.empty.see(l.drained(), l.at.Sub(c.at))
	}
	for i, p := range l.queues {
		w.wait(i, p, l.at)
	}
	w.last = l
	w.looks++
}

// wait takes in the state of one partition. A wait is counted from the last look that
// saw no message waiting to the first one that does not see any more: no event has
// waited for longer.
func (w *watch) wait(i int, p partition, at time.Time) {
	t := w.waits[i]
	if t == nil {
		t = &wait{since: at, owner: p.owner}
		w.waits[i] = t
	}
	t.moved = t.moved || p.owner != t.owner
	longest := &w.stayed
	if t.moved {
		longest = &w.moved
	}
	if t.waiting || p.ready > 0 {
		*longest = max(*longest, at.Sub(t.since))
	}
	if t.waiting = p.ready > 0; !t.waiting {
		*t = wait{since: at, owner: p.owner}
	}
}

// settled reports whether the partitions are spread evenly and the retired ones empty.
func (w *watch) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks > 0 && w.last.even() && w.last.drained()
}

// Limits of what a run over partitions shows.
const (
	evenLimit = 10 * time.Second // until the partitions are spread evenly after a change of workers
	waitLimit = 20 * time.Second // that events wait in a partition that moves
)

// slow returns what took longer than promised.
func (w *watch) slow() (faults []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.changes {
		if c.do != repartition && (!c.even.holds || c.even.took > evenLimit) {
			faults = append(faults, fmt.Sprintf("partitions were uneven after %q for longer than %v: even after %v", c.do, evenLimit, c.even))
		}
	}
	if w.moved > waitLimit {
		faults = append(faults, fmt.Sprintf("an event waited in a partition that moved for up to %v: it must be %v at most", w.moved, waitLimit))
	}
	return faults
}

// report tells of each kind of change how often it came and how long it took at most.
func (w *watch) report() (lines []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, do := range []action{scale, addWorker, dropWorker, killWorker, repartition} {
		var took []time.Duration
		never, full, empty := 0, 0, time.Duration(0)
		for _, c := range w.changes {
			if c.do == do && c.even.holds {
				took = append(took, c.even.took)
			} else if c.do == do {
				never++
			}
			switch {
			case c.do != do:
			case c.empty.holds:
				empty = max(empty, c.empty.took)
			default:
				full++
			}
		}
		if len(took)+never == 0 {
			continue
		}
		slices.Sort(took)
		line := fmt.Sprintf("%-12s %d", do, len(took)+never)
		if n := len(took); n > 0 {
			line += fmt.Sprintf(": partitions even after a median of %v, at most %v", took[n/2].Round(10*time.Millisecond), took[n-1].Round(10*time.Millisecond))
		}
		if never > 0 {
			line += fmt.Sprintf("; %d times not before the next change", never)
		}
		if do == repartition {
			line += fmt.Sprintf("; retired queues empty after at most %v, %d times not before the next change", empty.Round(10*time.Millisecond), full)
		}
		lines = append(lines, line)
	}
	return append(lines, fmt.Sprintf("longest wait %v in a partition that moved meanwhile, %v in any other (%d looks)",
		w.moved.Round(10*time.Millisecond), w.stayed.Round(10*time.Millisecond), w.looks))
}
