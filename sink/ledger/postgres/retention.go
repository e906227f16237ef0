package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
)

// ErrBusy is returned by [Ledger.Retain] while another call does the same work.
var ErrBusy = errors.New("another run of retention is under way: wait until it has ended")

// Retention says what [Ledger.Retain] keeps.
type Retention struct {
	Ahead   int           // days after today that have a partition
	Records time.Duration // a day's records are dropped once the day ended so long ago
	Keys    time.Duration // final event keys older than this are deleted
}

// DefaultRetention returns what is kept where nothing else is said.
func DefaultRetention() Retention {
	return Retention{Ahead: 7, Records: 90 * 24 * time.Hour, Keys: 30 * 24 * time.Hour}
}

// Validate reports every fault at once.
func (r Retention) Validate() error {
	const least = 24 * time.Hour
	var faults engine.Faults
	faults.If(r.Ahead < 1, "%d days ahead: it must be at least 1", r.Ahead)
	faults.If(r.Records < least, "records are kept for %v: it must be at least %v", r.Records, least)
	faults.If(r.Keys < least, "event keys are kept for %v: it must be at least %v", r.Keys, least)
	return faults.Err()
}

// Retained is what a call of [Ledger.Retain] has done.
type Retained struct {
	Made    int           // partitions
	Dropped int           // partitions
	Keys    int64         // deleted
	Lost    int64         // of Keys: those of a NOW that was never dispatched
	Ahead   int           // as of [Ledger.DaysAhead], after the call
	Locked  time.Duration // how long commits were kept out, the waits for the lock included
}

// lockRetention is held by a transaction, so that a pooler gives it back with the
// connection. The transaction holds no snapshot: rows that are deleted meanwhile can
// be removed.
const lockRetention = `SELECT pg_try_advisory_xact_lock(hashtext('notify_retention'))`

// Retain makes partitions ahead, drops those of records that are no longer kept, and
// deletes the keys of events that are no longer known. What it returns was done also
// where it fails; the next call goes on with the rest.
func (l *Ledger) Retain(ctx context.Context, now engine.Millis, r Retention) (done Retained, err error) {
	if err := r.Validate(); err != nil {
		return done, err
	}
	unlock, err := l.lockRetention(ctx)
	if err != nil {
		return done, err
	}
	defer unlock()
	if done.Made, err = l.EnsurePartitions(ctx, now, 1+r.Ahead); err != nil {
		return done, err
	}
	oldest := now - engine.Millis(r.Records.Milliseconds())
	if done.Dropped, done.Locked, err = l.DropBefore(ctx, oldest); err != nil {
		return done, err
	}
	if done.Keys, done.Lost, err = l.deleteKeys(ctx, now-engine.Millis(r.Keys.Milliseconds()), midnight(oldest)); err != nil {
		return done, err
	}
	done.Ahead, err = l.DaysAhead(ctx, now)
	return done, err
}

// PlanRetention returns what [Ledger.Retain] would do, and the starts of the days (UTC)
// that it would drop. It changes nothing; Ahead is as it is without the call.
func (l *Ledger) PlanRetention(ctx context.Context, now engine.Millis, r Retention) (plan Retained, drops []engine.Millis, err error) {
	if err := r.Validate(); err != nil {
		return plan, nil, err
	}
	all, err := l.partitions(ctx)
	if err != nil {
		return plan, nil, err
	}
	missing, err := missingDays(all, now, 1+r.Ahead)
	if err != nil {
		return plan, nil, err
	}
	oldest := now - engine.Millis(r.Records.Milliseconds())
	for _, p := range endedBefore(all, oldest) {
		drops = append(drops, p.from)
	}
	plan.Made, plan.Dropped = len(missing), len(drops)
	keys := now - engine.Millis(r.Keys.Milliseconds())
	if err := l.pool.QueryRow(ctx, countOldKeys, keys.Time(), midnight(oldest).Time()).Scan(&plan.Keys, &plan.Lost); err != nil {
		return plan, drops, mark(ctx, "count event keys", err)
	}
	plan.Ahead, err = l.DaysAhead(ctx, now)
	return plan, drops, err
}

// lockRetention returns a function that gives the lock back, or [ErrBusy]. The
// connection is none of the pool's, which may have a single one.
func (l *Ledger) lockRetention(ctx context.Context) (unlock func(), err error) {
	const doing = "lock"
	conn, err := pgx.ConnectConfig(ctx, l.pool.Config().ConnConfig)
	if err != nil {
		return nil, mark(ctx, doing, err)
	}
	var tx pgx.Tx
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
		defer cancel()
		if tx != nil {
			_ = tx.Rollback(ctx) // the next call finds it free; where this fails, the closing ends it
		}
		_ = conn.Close(ctx)
	}
	var locked bool
	if tx, err = conn.Begin(ctx); err == nil {
		err = tx.QueryRow(ctx, lockRetention).Scan(&locked)
	}
	if err == nil && locked {
		return unlock, nil
	}
	unlock()
	if err != nil {
		return nil, mark(ctx, doing, err)
	}
	return nil, ErrBusy
}

// keysPerCall bounds how long a call of deleteKeys keeps locks.
const keysPerCall = 5000

const (
	// A deferral may outlive the hand-over of its NOW: it needs its key until its mark
	// deletes it. The key of a LATER goes where its deferral is gone: its user is erased.
	oldKeys = `decided_at < $1 AND (outcome = 'NEVER' OR (outcome = 'LATER' OR outcome = 'NOW' AND (dispatched OR decided_at < $2))
		AND NOT EXISTS (SELECT FROM notify_deferrals w WHERE w.event_id = k.event_id))`

	countOldKeys = `SELECT count(*), count(*) FILTER (WHERE outcome = 'NOW' AND NOT dispatched) FROM notify_event_keys k WHERE ` + oldKeys

	// It begins at an instant, so that a call does not pass again over keys that stay. It
	// waits for no lock.
	deleteOldKeys = `WITH old AS (
			SELECT event_id FROM notify_event_keys k WHERE ` + oldKeys + ` AND decided_at >= $3
			ORDER BY decided_at LIMIT $4 FOR UPDATE SKIP LOCKED
		), gone AS (
			DELETE FROM notify_event_keys k USING old WHERE k.event_id = old.event_id RETURNING k.*
		) SELECT count(*), count(*) FILTER (WHERE outcome = 'NOW' AND NOT dispatched), max(decided_at) FROM gone`
)

// deleteKeys deletes the final keys decided before an instant: those of a NEVER, of a
// NOW that was dispatched, of a NOW decided before dropped, whose record is gone, and of a
// LATER of an erased user. Those of deferrals stay. It returns how many, and how many of these were of a NOW that was not
// dispatched.
func (l *Ledger) deleteKeys(ctx context.Context, before, dropped engine.Millis) (deleted, lost int64, err error) {
	from := time.UnixMilli(0)
	for {
		var n, undispatched int64
		var last *time.Time
		err := l.pool.QueryRow(ctx, deleteOldKeys, before.Time(), dropped.Time(), from, keysPerCall).Scan(&n, &undispatched, &last)
		if err != nil {
			return deleted, lost, mark(ctx, fmt.Sprintf("delete event keys, %d are deleted", deleted), err)
		}
		deleted, lost = deleted+n, lost+undispatched
		if n < keysPerCall {
			return deleted, lost, nil
		}
		from = *last
	}
}

// DaysAhead returns how many days in a row after today (UTC) have a partition; -1: not
// even today has one, and nothing can be committed.
func (l *Ledger) DaysAhead(ctx context.Context, now engine.Millis) (int, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	days, err := l.Days(ctx)
	if err != nil {
		return 0, err
	}
	next := midnight(now)
	ahead := -1
	for _, at := range days {
		if at == next {
			ahead, next = ahead+1, next+day
		}
	}
	return ahead, nil
}
