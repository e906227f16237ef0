package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
)

// day is the span of a partition; days are those of UTC.
const day = engine.Millis(24 * 60 * 60 * 1000)

// midnight returns the start of an instant's day.
func midnight(at engine.Millis) engine.Millis { return at - (at%day+day)%day }

const (
	partitionName = "notify_decisions_20060102"

	lockTimeout = `SET LOCAL lock_timeout = '500ms'`

	// One call works on the partitions at a time.
	lockPartitions = `SELECT pg_advisory_xact_lock(hashtext('notify_partitions'))`

	// The tables of days, and whether they are attached.
	listPartitions = `SELECT c.relname, EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
		FROM pg_class c WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'notify_decisions'::regclass)
		AND c.relkind = 'r' AND c.relname ~ '^notify_decisions_[0-9]{8}$' ORDER BY c.relname`
)

// attempts is how often a lock that is not given within its timeout is asked for.
// Between two attempts the inserts that have queued behind it go on.
const (
	attempts   = 20
	retryPause = 200 * time.Millisecond
)

// partition is the table of one day.
type partition struct {
	name     string
	from     engine.Millis
	attached bool
}

func (l *Ledger) partitions(ctx context.Context) ([]partition, error) {
	return collect(ctx, l, "list partitions", scanPartition, listPartitions)
}

func scanPartition(row pgx.CollectableRow) (p partition, err error) {
	if err = row.Scan(&p.name, &p.attached); err != nil {
		return p, err
	}
	from, err := time.Parse(partitionName, p.name)
	p.from = engine.Millis(from.UnixMilli())
	return p, err
}

// Days returns the start of each day (UTC) that has a partition, ascending.
func (l *Ledger) Days(ctx context.Context) (days []engine.Millis, err error) {
	all, err := l.partitions(ctx)
	return daysOf(all), err
}

func daysOf(all []partition) (days []engine.Millis) {
	for _, p := range all {
		if p.attached {
			days = append(days, p.from)
		}
	}
	return days
}

// OldestDay returns the start of the first day (UTC) whose records are kept; the end of
// time where there is none.
func (l *Ledger) OldestDay(ctx context.Context) (engine.Millis, error) {
	all, err := l.partitions(ctx)
	return oldestOf(all), err
}

func oldestOf(all []partition) engine.Millis {
	days := daysOf(all)
	if len(days) == 0 {
		return endOfTime
	}
	return days[0]
}

// EnsurePartitions makes the partitions of a number of days (UTC), of which the first
// holds from, where they are missing, and returns how many it made. Commits go on
// meanwhile: a table is made aside and attached, which locks no reader and no writer
// out.
func (l *Ledger) EnsurePartitions(ctx context.Context, from engine.Millis, days int) (made int, err error) {
	all, err := l.partitions(ctx)
	if err != nil {
		return 0, err
	}
	missing, fault := missingDays(all, from, days)
	for _, at := range missing {
		if _, err := l.locked(ctx, "make a partition", func(tx pgx.Tx) error { return makePartition(ctx, tx, at) }); err != nil {
			return made, err
		}
		made++
	}
	return made, fault
}

// missingDays returns those of a number of days that have no partition, up to one whose
// table is detached.
func missingDays(all []partition, from engine.Millis, days int) (missing []engine.Millis, err error) {
	attached, met := map[engine.Millis]bool{}, map[engine.Millis]bool{}
	for _, p := range all {
		attached[p.from], met[p.from] = p.attached, true
	}
	first := midnight(from)
	for i := range days {
		at := first + engine.Millis(i)*day
		switch {
		case attached[at]:
		case met[at]:
			return missing, engine.ConfigurationError(ReasonSchema, fmt.Errorf(
				"the table %s is detached from notify_decisions: attach it (ALTER TABLE notify_decisions ATTACH PARTITION) or drop it",
				at.Time().UTC().Format(partitionName)))
		default:
			missing = append(missing, at)
		}
	}
	return missing, nil
}

// endedBefore returns the partitions whose day ends at an instant or before it.
func endedBefore(all []partition, at engine.Millis) (ended []partition) {
	for _, p := range all {
		if p.from+day <= at {
			ended = append(ended, p)
		}
	}
	return ended
}

func makePartition(ctx context.Context, tx pgx.Tx, at engine.Millis) error {
	if _, err := tx.Exec(ctx, lockPartitions); err != nil {
		return err
	}
	name := at.Time().UTC().Format(partitionName)
	var there bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&there); err != nil || there {
		return err // another call has made it meanwhile
	}
	if _, err := tx.Exec(ctx, "CREATE TABLE "+name+" (LIKE notify_decisions INCLUDING ALL)"); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, fmt.Sprintf("ALTER TABLE notify_decisions ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')",
		name, at.Time().UTC().Format(time.RFC3339), (at+day).Time().UTC().Format(time.RFC3339)))
	return err
}

// DropBefore drops the partitions whose day ends at an instant or before it, and
// returns how many it dropped, and how long commits were kept out. A partition is
// detached under a short lock, and dropped once commits have no part in it. One that
// was detached by a call that died is dropped too.
func (l *Ledger) DropBefore(ctx context.Context, before engine.Millis) (dropped int, kept time.Duration, err error) {
	all, err := l.partitions(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range endedBefore(all, before) {
		if p.attached {
			var took time.Duration
			took, err = l.locked(ctx, "detach a partition", func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "ALTER TABLE notify_decisions DETACH PARTITION "+p.name)
				return err
			})
			kept += took
		}
		if err == nil {
			_, err = l.locked(ctx, "drop a partition", func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+p.name)
				return err
			})
		}
		if err != nil {
			return dropped, kept, err
		}
		dropped++
	}
	return dropped, kept, nil
}

// locked runs a transaction that waits for a lock for 500 ms at most, and repeats it
// where it was not given. It returns how long the transactions took.
func (l *Ledger) locked(ctx context.Context, doing string, run func(pgx.Tx) error) (took time.Duration, err error) {
	for range attempts {
		began := time.Now()
		err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, lockTimeout)
			return errors.Join(err, run(tx))
		})
		took += time.Since(began)
		if codeOf(err) != codeLocked {
			return took, mark(ctx, doing, err)
		}
		select {
		case <-ctx.Done():
			return took, ctx.Err()
		case <-time.After(retryPause):
		}
	}
	return took, fmt.Errorf("PostgreSQL: %s: a long transaction keeps the lock; it is tried again by the next run: %w", doing, err)
}
