package processor

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
	"keyfold/engine/rounds"
)

// commit writes the works' changes in one call, and with them the marks that are
// queued. It returns the works that are written, and the ledger's error if there was
// one.
func (f *flush) commit() (committed []*work, down error) {
	var (
		works   []*work
		changes []notify.Change
	)
	for _, w := range f.works {
		switch {
		case w.done:
		case len(w.change.Decided)+len(w.change.Postponed) == 0:
			committed = append(committed, w)
		default:
			works, changes = append(works, w), append(changes, w.change)
		}
	}
	if len(changes) == 0 {
		return committed, nil
	}
	errs := f.write(changes)
	var unknown []*work
	for i, w := range works {
		switch err := errs[i]; {
		case err == nil:
			committed = append(committed, w)
		case f.refused(w, err):
		case errors.Is(err, engine.ErrOwn): // nothing was written
			w.reload()
			down = err
		default:
			f.stats.Unknowns.Add(1)
			unknown, down = append(unknown, w), err
		}
	}
	found, err := f.resolve(unknown)
	if err != nil {
		down = err
	}
	committed = append(committed, found...)
	for _, w := range committed {
		f.count(w)
	}
	return committed, down
}

// write calls the ledger. Marks that it may not have written are queued again: to
// write one twice changes nothing.
func (f *flush) write(changes []notify.Change) []error {
	fail := func(err error) []error {
		errs := make([]error, len(changes))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if err := failpoint.Hit(failpoint.BeforeCommit); err != nil {
		return fail(err)
	}
	marks := f.marks.take()
	began := time.Now()
	errs := f.ports.Ledger.Commit(f.ctx, changes, marks)
	f.stats.CommitTime.Observe(time.Since(began))
	f.stats.UsersPerCommit.ObserveSize(int64(len(changes)))
	written := len(errs) == len(changes) // no error of the marks follows
	f.taken(marks, written)
	if err := failpoint.Hit(failpoint.AfterCommit); err != nil {
		return fail(fmt.Errorf("%w: %w", engine.ErrUnknown, err))
	}
	if written && len(marks) > 0 {
		failpoint.Reach(failpoint.Marked)
	}
	return errs[:len(changes)]
}

// refused takes an answer that says that nothing was written, and reports whether it
// is one.
func (f *flush) refused(w *work, err error) bool {
	if known, ok := errors.AsType[*notify.KnownError](err); ok {
		w.learn(known.Known)
		w.reload()
		return true
	}
	if errors.Is(err, engine.ErrConflict) {
		f.stats.Conflicts.Add(1)
		f.logConflict(w)
		w.reload()
		return true
	}
	if w.mayBeAlias(err) {
		return true
	}
	switch engine.KindOf(err) {
	case engine.Permanent:
		f.reject(w, err)
		return true
	case engine.Configuration:
		f.finish(w, f.leave(err))
		return true
	}
	return false
}

// reject takes a change that the ledger will never write. A single delivery is dead;
// several are tried one by one, so that the others are saved.
func (f *flush) reject(w *work, err error) {
	if len(w.deliveries) == 1 {
		f.finish(w, Verdict{Outcome: Dead, Err: err})
		return
	}
	for i := range w.deliveries {
		part := flush{Processor: f.Processor, ctx: f.ctx, set: f.set, now: f.now}
		part.works = []*work{{user: w.user, deliveries: w.deliveries[i : i+1 : i+1], known: w.known}}
		part.run()
	}
	w.deliveries, w.done = nil, true
}

// resolve reads back what became of changes whose answer was lost, by the newest
// decision of each, which was named before the commit. Those that are not there
// were not written, and go round again.
func (f *flush) resolve(unknown []*work) (written []*work, err error) {
	if len(unknown) == 0 {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(unknown))
	for i, w := range unknown {
		w.reload()
		if n := len(w.change.Decided); n > 0 {
			ids[i] = w.change.Decided[n-1].Record.DecisionID
		}
	}
	keys, err := f.find(ids)
	if err != nil {
		// What was written is found when its event comes again.
		v := f.leave(fmt.Errorf("%w: %w", engine.ErrUnknown, err))
		for _, w := range unknown {
			f.finish(w, v)
		}
		return nil, fmt.Errorf("read back %d changes: %w", len(unknown), err)
	}
	for i, w := range unknown {
		if ids[i] != uuid.Nil && keys[i].Outcome != 0 {
			written = append(written, w)
		}
	}
	return written, nil
}

// find reads keys by decision_id. While the ledger is away it waits.
func (f *flush) find(ids []uuid.UUID) (keys []notify.Known, err error) {
	_, err = f.policy.Run(f.ctx, rounds.Work{
		Wait: f.await,
		Round: func() (left bool, err error) {
			if keys, err = f.ports.Ledger.Find(f.ctx, ids); err != nil {
				f.stats.Failures.Add(1)
			}
			return err != nil, err
		},
	})
	return keys, err
}

// count counts what a work's change has written.
func (f *flush) count(w *work) {
	if len(w.change.Decided)+len(w.change.Postponed) > 0 {
		f.stats.Commits.Add(1)
	}
	f.stats.Postponed.Add(int64(len(w.change.Postponed)))
	for i := range w.change.Decided {
		f.stats.Decisions.add(&w.change.Decided[i].Record)
	}
	if len(w.would) > 0 {
		f.ports.Shadows.Observe(f.set.Shadow, w.change.Decided, w.would)
	}
}
