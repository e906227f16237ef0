package sqlfile

import (
	"fmt"
	"sync"

	"github.com/sourcegraph/conc/panics"

	"keyfold/engine"
)

const (
	// maxGroupBytes bounds what one transaction writes, and with it the time
	// the first function of a group waits for the last.
	maxGroupBytes = 16 << 20
	// maxGroupJobs bounds the same where functions write little.
	maxGroupJobs = 4096
	// maxStatements bounds the prepared statements for callers whose texts
	// vary after all.
	maxStatements = 256
)

// writer runs the queue: the only goroutine that writes to the file.
type writer struct {
	path string

	mu      sync.Mutex
	arrived sync.Cond // signalled when queue or closed changes
	queue   []*job    // guarded by mu
	closed  bool      // guarded by mu; nothing is queued after it

	stopped chan struct{}           // closed when run returns
	commit  func(*connection) error // a test counts it or makes it fail

	// Only run uses what follows, until it has stopped.
	c       *connection // nil after a failure, until the next group
	waiting []*job      // taken out of queue, not yet run
	spare   []*job      // waiting's array, for the next exchange with queue
	group   []*job      // of the open transaction
}

func newWriter(c *connection) *writer {
	w := &writer{path: c.path, c: c, commit: (*connection).commit, stopped: make(chan struct{})}
	w.arrived.L = &w.mu
	return w
}

// enqueue reports whether j was queued; it is not once the writer is closed.
func (w *writer) enqueue(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.queue = append(w.queue, j)
	w.arrived.Signal()
	return true
}

// drain lets the queue run out and returns when the last answer was given.
func (w *writer) drain() {
	w.mu.Lock()
	w.closed = true
	w.arrived.Signal()
	w.mu.Unlock()
	<-w.stopped
}

// run answers every job of the queue. A panic in a done function is not caught:
// it ends the process, as it does on any goroutine, instead of the writer alone.
func (w *writer) run() {
	defer close(w.stopped)
	for w.wait() {
		if first := w.next(); first != nil {
			w.runGroup(first)
		}
	}
}

// wait blocks until there is a job. False means that there will be none.
func (w *writer) wait() bool {
	if len(w.waiting) > 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.closed {
		w.arrived.Wait()
	}
	return len(w.queue) > 0
}

// next returns the next job that its caller has not withdrawn, or nil when
// there is none at the moment.
func (w *writer) next() *job {
	for {
		if len(w.waiting) == 0 {
			w.mu.Lock()
			w.waiting, w.queue = w.queue, w.spare[:0]
			w.mu.Unlock()
			if w.spare = w.waiting[:0]; len(w.waiting) == 0 {
				return nil
			}
		}
		j := w.waiting[0]
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
		if j.claim() {
			return j
		}
	}
}

// runGroup runs first and what waits behind it in one transaction and answers
// them all.
func (w *writer) runGroup(first *job) {
	w.group = append(w.group[:0], first)
	err := w.transact()
	for _, j := range w.group {
		if j.err == nil { // a function that succeeded shares the transaction's fate
			j.err = err
		}
		j.done(j.err)
	}
	clear(w.group)
}

// transact runs the group's first job, takes more into the group, and commits.
// Its error is that of the group's jobs which succeeded.
func (w *writer) transact() error {
	if err := w.begin(); err != nil {
		w.takeAll()
		return err
	}
	first := w.group[0]
	if w.try(first); w.c.broken == nil && first.err != nil {
		return w.rollback()
	}
	for w.c.broken == nil && w.c.bound < maxGroupBytes && len(w.group) < maxGroupJobs {
		j := w.next()
		if j == nil {
			break
		}
		w.group = append(w.group, j)
		w.tryInSavepoint(j)
	}
	if broken := w.c.broken; broken != nil {
		w.giveUp()
		return fmt.Errorf("transaction was given up: %w", broken)
	}
	return w.finish()
}

// takeAll brings what waits into the group. A begin that failed has waited for
// as long as a caller can be asked to; each job behind it would wait as long.
func (w *writer) takeAll() {
	for j := w.next(); j != nil; j = w.next() {
		w.group = append(w.group, j)
	}
}

func (w *writer) begin() error {
	if w.c == nil {
		c, err := connect(w.path, modeWrite)
		if err != nil {
			return err
		}
		w.c = c
	}
	if len(w.c.statements) > maxStatements {
		w.c.forgetStatements()
	}
	w.c.bound = 0
	_, err := w.c.exec("BEGIN IMMEDIATE")
	if err != nil {
		w.giveUp()
	}
	return err
}

// try runs a job's function. What it wrote before an error is still there.
func (w *writer) try(j *job) {
	tx := Tx{c: w.c}
	if panicked := panics.Try(func() { j.err = j.fn(&tx) }); panicked != nil {
		j.err = panicked.AsError()
	}
	tx.finish()
}

// tryInSavepoint runs a job's function so that its error undoes it alone. The
// first of a group needs none: there is nothing before it to keep.
func (w *writer) tryInSavepoint(j *job) {
	if _, err := w.c.exec("SAVEPOINT job"); err != nil {
		w.breakOff(j, err)
		return
	}
	if w.try(j); j.err != nil {
		if _, err := w.c.exec("ROLLBACK TO job"); err != nil {
			w.breakOff(j, err)
			return
		}
	}
	if _, err := w.c.exec("RELEASE job"); err != nil {
		w.breakOff(j, err)
	}
}

// breakOff gives up the transaction because a savepoint of j failed. Where
// SQLite did not end it by itself, a function must have, in its own way.
func (w *writer) breakOff(j *job, err error) {
	if w.c.broken == nil {
		w.c.broken = fmt.Errorf("%w: %w", engine.ErrUnknown, err)
	}
	if j.err == nil {
		j.err = w.c.broken
	}
}

// rollback ends a transaction of which nothing is to be kept.
func (w *writer) rollback() error {
	if _, err := w.c.exec("ROLLBACK"); err != nil {
		w.giveUp()
	}
	return nil
}

// finish commits.
func (w *writer) finish() error {
	err := w.commit(w.c)
	if err == nil {
		return nil
	}
	w.giveUp()
	if notCommitted(err) {
		return err
	}
	return fmt.Errorf("%w: commit: %w", engine.ErrUnknown, err)
}

// giveUp closes the connection, which ends the transaction whatever state it is
// in. An error of closing adds nothing: what was acknowledged is in the log.
func (w *writer) giveUp() { _ = w.disconnect() }

// disconnect closes the connection, if there is one.
func (w *writer) disconnect() error {
	if w.c == nil {
		return nil
	}
	err := w.c.close()
	w.c = nil
	return err
}
