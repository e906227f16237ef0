package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// Waiting chooses deferrals. Its zero value chooses all.
type Waiting struct {
	Events    []uuid.UUID   // these events alone; nil: any
	User      string        // "": of every user
	DueBefore engine.Millis // 0: no bound
}

// Rows that are not due are counted from the index alone. next_at is due_at, or the end of
// a worker's lease; only due rows are leased, so a due row with a later next_at is claimed.
const countDeferrals = `SELECT event_type::text, sum(due)::bigint, sum(claimed)::bigint,
		sum(minute)::bigint, sum(hour)::bigint, sum(day)::bigint, sum(later)::bigint, min(oldest)
	FROM (
		SELECT event_type, count(*) FILTER (WHERE next_at <= $1) AS due, count(*) FILTER (WHERE next_at > $1) AS claimed,
			0 AS minute, 0 AS hour, 0 AS day, 0 AS later, min(due_at) AS oldest
		FROM (SELECT event_type, next_at, due_at FROM notify_deferrals WHERE due_at <= $1 ORDER BY due_at LIMIT $2) d GROUP BY event_type
		UNION ALL SELECT event_type, 0, 0,
			count(*) FILTER (WHERE due_at <= $1 + interval '1 minute'),
			count(*) FILTER (WHERE due_at > $1 + interval '1 minute' AND due_at <= $1 + interval '1 hour'),
			count(*) FILTER (WHERE due_at > $1 + interval '1 hour' AND due_at <= $1 + interval '1 day'),
			count(*) FILTER (WHERE due_at > $1 + interval '1 day'),
			min(due_at)
		FROM (SELECT event_type, due_at FROM notify_deferrals WHERE due_at > $1 ORDER BY due_at LIMIT $2) d GROUP BY event_type
	) w GROUP BY event_type ORDER BY event_type::text`

// CountDeferrals counts what waits, as of an instant, by the types' names. most bounds the due
// ones and the others each, those that are due first; 0: no bound. With a bound the server counts
// for 2 s at most, see [ledger.ErrTooMany].
func (l *Ledger) CountDeferrals(ctx context.Context, now engine.Millis, most int64) ([]ledger.DeferralCount, error) {
	scan := func(row pgx.CollectableRow) (c ledger.DeferralCount, err error) {
		var kind string
		var oldest *time.Time
		err = row.Scan(&kind, &c.Due, &c.Claimed, &c.Minute, &c.Hour, &c.Day, &c.Later, &oldest)
		c.Type, c.Oldest = notify.ParseEventType(kind), millisOf(oldest)
		return c, err
	}
	if most > 0 {
		return briefly(ctx, l, "count deferrals", scan, countDeferrals, now.Time(), most)
	}
	return collect(ctx, l, "count deferrals", scan, countDeferrals, now.Time(), nil)
}

// Deferral is an event that waits.
type Deferral struct {
	notify.Due
	ClaimedUntil engine.Millis // the end of a worker's lease; 0: it was not claimed
}

// Deferrals returns at most n deferrals by their time.
func (l *Ledger) Deferrals(ctx context.Context, w Waiting, n int) ([]Deferral, error) {
	where, args := w.where(nil)
	args = append(args, n)
	return collect(ctx, l, "list deferrals", func(row pgx.CollectableRow) (d Deferral, err error) {
		scanned, err := scanDeferral(claimedRow{row, &d.ClaimedUntil})
		d.Due = scanned.Due
		if d.ClaimedUntil == d.DueAt {
			d.ClaimedUntil = 0
		}
		return d, err
	}, "SELECT "+deferralColumns+", w.next_at FROM notify_deferrals w WHERE "+where+
		" ORDER BY w.due_at, w.event_id LIMIT $"+strconv.Itoa(len(args)), args...)
}

// claimedRow is a row of deferralColumns that next_at follows.
type claimedRow struct {
	pgx.CollectableRow
	next *engine.Millis
}

func (r claimedRow) Scan(into ...any) error {
	var next time.Time
	err := r.CollectableRow.Scan(append(into, &next)...)
	*r.next = millisOf(&next)
	return err
}

// where returns the condition, whose first parameter follows args.
func (w *Waiting) where(args []any) (string, []any) {
	conditions := []string{"true"}
	add := func(condition string, v any) {
		args = append(args, v)
		conditions = append(conditions, strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(args))))
	}
	if w.Events != nil {
		add("w.event_id = ANY (?::uuid[])", texts(w.Events))
	}
	if w.User != "" {
		add("w.user_id = ?", w.User)
	}
	if w.DueBefore != 0 {
		add("w.due_at < ?", w.DueBefore.Time())
	}
	return strings.Join(conditions, " AND "), args
}

// releasable is true of a deferral that is not due and that no worker has claimed.
const releasable = "w.next_at = w.due_at AND w.due_at > $1"

// CountReleasable counts the deferrals that [Ledger.MakeDue] would make due.
func (l *Ledger) CountReleasable(ctx context.Context, now engine.Millis, w Waiting) (n int64, err error) {
	where, args := w.where([]any{now.Time()})
	err = l.pool.QueryRow(ctx, "SELECT count(*) FROM notify_deferrals w WHERE "+releasable+" AND "+where, args...).Scan(&n)
	return n, mark(ctx, "count deferrals", err)
}

// MakeDue makes deferrals due now that are not due yet, and returns how many. Those that
// a worker has claimed, or that a call has locked, are left as they are.
func (l *Ledger) MakeDue(ctx context.Context, now engine.Millis, w Waiting) (int64, error) {
	where, args := w.where([]any{now.Time()})
	tag, err := l.pool.Exec(ctx, `UPDATE notify_deferrals SET due_at = $1, next_at = $1 WHERE event_id IN (
		SELECT w.event_id FROM notify_deferrals w WHERE `+releasable+" AND "+where+" ORDER BY w.event_id FOR UPDATE SKIP LOCKED)", args...)
	return tag.RowsAffected(), mark(ctx, "make deferrals due", err)
}

const countDeferred = `SELECT count(*) FROM (SELECT FROM notify_deferrals LIMIT 100000) w`

// Backlog returns how many deferrals wait, at most 100,000, and the time of the oldest NOW
// decision that is not marked as dispatched and can still be; 0: there is none.
func (l *Ledger) Backlog(ctx context.Context) (deferred int64, undispatched engine.Millis, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	if err = l.pool.QueryRow(ctx, countDeferred).Scan(&deferred); err != nil {
		return 0, 0, mark(ctx, "count deferrals", err)
	}
	_, undispatched, err = l.CountUndispatched(ctx, engine.Now())
	return deferred, undispatched, err
}

// CountUndispatched counts the NOW decisions before an instant that are not marked as
// dispatched and can still be, and returns the time of the oldest; 0: there is none.
func (l *Ledger) CountUndispatched(ctx context.Context, before engine.Millis) (n int64, oldest engine.Millis, err error) {
	all, err := interpreted(ctx, l, "count undispatched", func(row pgx.CollectableRow) (at *time.Time, err error) {
		err = row.Scan(&n, &at)
		return at, err
	}, countUndispatched, before.Time())
	if err != nil {
		return 0, 0, err
	}
	return n, millisOf(all[0]), nil
}
