package postgres

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// LIMIT has the planner look each id up, in the partition of its day.
const readDecisions = `SELECT ` + decisionColumns + ` FROM (SELECT DISTINCT unnest($1::uuid[]) AS id) w
	CROSS JOIN LATERAL (SELECT * FROM notify_decisions d
		WHERE d.decided_at = notify_instant(w.id) AND d.decision_id = w.id LIMIT 1) d`

// Records yields the records of a filter until the first error. Each page is as of
// its own reading.
func (l *Ledger) Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
	return f.Records(func(last *notify.Record, size int) ([]notify.Decided, error) {
		ctx, cancel := l.bounded(ctx)
		defer cancel()
		query, args := pageQuery(&f, last, size)
		return collect(ctx, l, "records", scanDecision, query, args...)
	})
}

// CountRecords returns how many records a user has.
func (l *Ledger) CountRecords(ctx context.Context, user string) (n int64, err error) {
	err = l.pool.QueryRow(ctx, "SELECT count(*) FROM notify_decisions WHERE user_id = $1", user).Scan(&n)
	return n, mark(ctx, "count records", err)
}

// pageQuery returns the query of the page that follows a record, nil for the first
// page.
func pageQuery(f *ledger.Filter, last *notify.Record, size int) (query string, args []any) {
	var where []string
	argument := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	where = append(where, "d.decided_at >= "+argument(f.From.Time()))
	if f.To != 0 {
		where = append(where, "d.decided_at < "+argument(f.To.Time()))
	}
	if f.User != "" {
		where = append(where, "d.user_id = "+argument(f.User))
	}
	if f.Event != uuid.Nil {
		where = append(where, "d.event_id = "+argument(f.Event.String())+"::uuid")
	}
	direction, beyond := " DESC", " < "
	if f.Oldest {
		direction, beyond = "", " > "
	}
	var order string
	if f.User != "" || f.Event != uuid.Nil {
		order = "d.seq" + direction
		if last != nil {
			where = append(where, "d.seq"+beyond+argument(last.Seq))
		}
	} else {
		order = "d.decided_at" + direction + ", d.decision_id" + direction
		if last != nil {
			at := argument(last.DecidedAt.Time())
			where = append(where, "(d.decided_at, d.decision_id)"+beyond+"("+at+", "+argument(last.DecisionID.String())+"::uuid)")
		}
	}
	return "SELECT " + decisionColumns + " FROM notify_decisions d WHERE " + strings.Join(where, " AND ") +
		" ORDER BY " + order + " LIMIT " + argument(size), args
}

// Decision returns a record with its event, nil where there is none. Of an erased
// user there is no event.
func (l *Ledger) Decision(ctx context.Context, id uuid.UUID) (*notify.Decided, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	found, err := collect(ctx, l, "decision", scanDecision, "SELECT "+decisionColumns+
		" FROM notify_decisions d WHERE d.decided_at = notify_instant($1::uuid) AND d.decision_id = $1::uuid", id.String())
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Decisions returns the records of ids that are there, each once and in no order, as
// [Ledger.Decision] does.
func (l *Ledger) Decisions(ctx context.Context, ids []uuid.UUID) ([]notify.Decided, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return collect(ctx, l, "decisions", scanDecision, readDecisions, texts(ids))
}

// Counts returns how many records have each type, outcome and first reason, in the
// order of these. It reads all records.
func (l *Ledger) Counts(ctx context.Context) ([]ledger.Count, error) {
	all, err := collect(ctx, l, "counts", func(row pgx.CollectableRow) (c ledger.Count, err error) {
		var kind, outcome string
		err = row.Scan(&kind, &outcome, &c.Reason, &c.N)
		c.Type, c.Outcome = notify.ParseEventType(kind), notify.ParseOutcome(outcome)
		return c, err
	}, `SELECT event_type::text, outcome::text, coalesce(reasons[1], ''), count(*)
		FROM notify_decisions GROUP BY event_type, outcome, reasons[1]`)
	slices.SortFunc(all, ledger.Count.Compare)
	return all, err
}

// Users returns the number of users with preferences or records, erased ones
// included.
func (l *Ledger) Users(ctx context.Context) (n int64, err error) {
	err = l.pool.QueryRow(ctx, "SELECT count(*) FROM notify_users").Scan(&n)
	return n, mark(ctx, "users", err)
}
