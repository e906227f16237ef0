package inbox

import (
	"log/slog"
	"time"

	"keyfold/engine/backoff"
)

// mark is a verdict on its way into the file.
type mark struct {
	seq    int64
	state  State
	reason string // of a dead one
	detail string
}

// marks are the verdicts that are not durable yet. They exist for one
// invariant:
//
//	When Settle returns, a function that will write its mark stands in the
//	writer's queue.
//
// What follows from it. A profile holds the ids of the events folded into it,
// but not for ever: with each write, ids past the retention go. An event that is
// delivered again after its id went would be folded twice, so an event must not
// be pending in the file while its id leaves the profile. A worker settles a
// user's batch before it writes that user's next one, and the profile writes
// pass through the same queue. So the marks of batch n are committed before, or
// in one transaction with, the write of batch n+1, and whatever instant a
// process is killed at, of each user at most the last written batch is folded
// and still pending. Its ids are the youngest of the profile, no write came
// after it that could have dropped them, and a stopped process drops none:
// Recover finds them there after a minute or after a year. That is why
// recovered deliveries carry no first-seen time; judged by the time of their
// arrival, every pending event would be past the horizon after a long stop.
//
// How it is kept. Settle appends its mark and, where no function waits in the
// queue, queues one. The function takes all marks collected by the time it runs:
// thousands of verdicts cost one UPDATE. A Settle that finds a function waiting
// relies on its place, so the place must exist by then: Inbox.order is held
// around Enqueue. A transaction that fails puts its marks back, in front; the
// next function takes them along, and where none comes, one is queued after a
// pause. Until then the invariant does not hold for them, yet no harm is near:
// it takes profile writes that succeed for a whole retention period beside marks
// that fail, in one file, and a crash at the end of it.
//
// What was rejected. Marking whenever there is time (on a timer, or by a
// goroutine that drains a channel) writes no less and waits for no one either,
// but lets any number of a user's batches be folded and pending at once. Their
// older ids may have been dropped by the newer writes, and then no reader of the
// file can tell a folded event from a new one. Marking in the profile's own
// transaction would be tighter still, but the store would have to know its
// caller's deliveries; the queue gives as much as the ids need.
type marks struct {
	waiting []mark // collected, not taken by a function yet
	// queued: a function stands in the writer's queue that has not taken the
	// waiting ones yet.
	queued   bool
	volatile int // not durable: waiting ones and those in a transaction
	failures int // transactions failed in a row
	again    *time.Timer
	closed   bool
}

// The wait after a failed mark transaction doubles from markPause to
// maxMarkPause.
const (
	markPause    = 50 * time.Millisecond
	maxMarkPause = 5 * time.Second
)

// mark collects m, in place of the delivery e where there is one, and sees to
// it that a function will write it.
func (in *Inbox) mark(e *entry, m mark) {
	in.enqueue(func() {
		in.marks.waiting = append(in.marks.waiting, m)
		in.marks.volatile++
		in.stats.count(&m)
		if e != nil {
			in.release(e)
		}
	})
}

// enqueue calls change under mu and queues a function that writes the waiting
// marks, where there are any and none is queued.
func (in *Inbox) enqueue(change func()) {
	in.order.Lock()
	defer in.order.Unlock()
	in.mu.Lock()
	change()
	m := &in.marks
	needed := !m.queued && !m.closed && len(m.waiting) > 0
	if needed {
		m.queued = true
	}
	in.mu.Unlock()
	if needed {
		g := &markGroup{inbox: in}
		in.ports.Writer.Enqueue(g.write, g.done)
	}
}

// markGroup is the marks of one function. The writer runs write and done on one
// goroutine.
type markGroup struct {
	inbox *Inbox
	marks []mark
	taken bool
}

// write takes the waiting marks at its first run; one after a rollback writes
// the same ones.
func (g *markGroup) write(tx Tx) error {
	if !g.taken {
		in := g.inbox
		in.mu.Lock()
		g.marks, g.taken = in.marks.waiting, true
		in.marks.waiting, in.marks.queued = nil, false
		in.mu.Unlock()
	}
	return writeMarks(tx, g.marks, time.Now())
}

func (g *markGroup) done(err error) {
	in := g.inbox
	if err != nil {
		g.failed(err)
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.marks.failures = 0
	in.marks.volatile -= len(g.marks)
	in.wakeWaiters()
}

// failed puts the marks back in front of younger ones.
func (g *markGroup) failed(err error) {
	in := g.inbox
	in.mu.Lock()
	m := &in.marks
	if g.taken {
		m.waiting = append(g.marks, m.waiting...)
	} else {
		m.queued = false // the function was refused before it ran
	}
	m.failures++
	pause := backoff.Doubled(markPause, maxMarkPause, m.failures-1)
	silent := m.again != nil || m.closed
	if !silent {
		m.again = time.AfterFunc(pause, func() { in.enqueue(func() { in.marks.again = nil }) })
	}
	count := len(m.waiting)
	in.mu.Unlock()
	if !silent {
		in.ports.Log.Error("verdicts not written", slog.Int("verdicts", count), slog.Duration("retry_in", pause),
			slog.String("hint", "check free space and permissions of the database file"), slog.Any("error", err))
	}
}
