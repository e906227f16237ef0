package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// countWithin is how long the server counts for a page at most.
const countWithin = 2 * time.Second

// The bounds are values, by which the planner leaves out the partitions of other days. Rows of
// one day lie in the order of their times, more or less, so that those of an hour are read by the
// primary key and lie together.
const countsOf = `SELECT event_type::text, outcome::text, coalesce(reasons[1], ''), count(*)
	FROM (SELECT event_type, outcome, reasons FROM notify_decisions WHERE decided_at >= $1::timestamptz AND decided_at < $2::timestamptz LIMIT $3) d
	GROUP BY event_type, outcome, reasons[1]`

// Counts returns how many records of a span have each type, outcome and first reason, in the
// order of these. With a bound the server counts for 2 s at most, see [ledger.ErrTooMany].
func (l *Ledger) Counts(ctx context.Context, in ledger.Span) (all []ledger.Count, err error) {
	from, to := in.From.Time(), min(in.To, endOfTime)
	if in.To == 0 {
		to = endOfTime
	}
	scan := func(row pgx.CollectableRow) (c ledger.Count, err error) {
		var kind, outcome string
		err = row.Scan(&kind, &outcome, &c.Reason, &c.N)
		c.Type, c.Outcome = notify.ParseEventType(kind), notify.ParseOutcome(outcome)
		return c, err
	}
	if in.Most > 0 {
		all, err = briefly(ctx, l, "counts", scan, countsOf, from, to.Time(), in.Most)
	} else {
		all, err = collect(ctx, l, "counts", scan, countsOf, from, to.Time(), nil) // LIMIT NULL is none
	}
	slices.SortFunc(all, ledger.Count.Compare)
	return all, err
}

// briefly is collect for a count that the server ends after [countWithin]. The settings end with
// the transaction. Plans that name every partition are not compiled, see interpreted.
func briefly[T any](ctx context.Context, l *Ledger, doing string, scan pgx.RowToFunc[T], query string, args ...any) (all []T, err error) {
	err = l.transaction(ctx, doing, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL jit = off; SET LOCAL statement_timeout = %d", countWithin.Milliseconds())); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, query, args...)
		if err == nil {
			all, err = pgx.CollectRows(rows, scan)
		}
		if codeOf(err) == codeCanceled && ctx.Err() == nil {
			return ledger.ErrTooMany
		}
		return err
	})
	return all, err
}
