package postgres

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// The instant is a value, which the planner knows: it plans the one partition of its day.
const readDecision = `SELECT ` + decisionColumns + ` FROM notify_decisions d
	WHERE d.decided_at = $1::timestamptz AND d.decision_id = $2::uuid`

// LIMIT has the planner look each id up, in the partition of its day.
const readDecisions = `SELECT ` + decisionColumns + ` FROM (SELECT DISTINCT unnest($1::uuid[]) AS id) w
	CROSS JOIN LATERAL (SELECT * FROM notify_decisions d
		WHERE d.decided_at = notify_instant(w.id) AND d.decision_id = w.id LIMIT 1) d`

// Records yields the records of a filter until the first error. Each page is as of
// its own reading.
//
// The turns of one event are asked for in the days that its key leaves open.
func (l *Ledger) Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
	if f.Event != uuid.Nil && f.User == "" && f.From == 0 && f.To == 0 && f.Limit == 0 {
		return l.turns(ctx, f)
	}
	return l.pages(ctx, f)
}

// turnsWithin is how long before its newest turn the first turn of an event is looked for
// at first: a deferral ends within days, longer only where no worker ran.
const turnsWithin = 8 * day

const readTurn = `SELECT turn, decided_at FROM notify_event_keys WHERE event_id = $1::uuid`

// turns yields the records of an event. The key says when its newest turn was decided and
// how many came before it. Only the days of these are read, mostly one; all days where one
// of the turns is older, and of an event whose key was deleted, each by its index.
func (l *Ledger) turns(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
	return func(yield func(notify.Decided, error) bool) {
		found, err := l.turnsOf(ctx, f)
		if err != nil {
			yield(notify.Decided{}, err)
			return
		}
		for _, d := range found {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (l *Ledger) turnsOf(ctx context.Context, f ledger.Filter) ([]notify.Decided, error) {
	bounded, cancel := l.bounded(ctx)
	defer cancel()
	keys, err := collect(bounded, l, "turns", func(row pgx.CollectableRow) (k notify.Known, err error) {
		var at time.Time
		err = row.Scan(&k.Turn, &at)
		k.DecidedAt = millisOf(&at)
		return k, err
	}, readTurn, f.Event.String())
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		f.To = keys[0].DecidedAt + 1
		if f.From = keys[0].DecidedAt; keys[0].Turn > 0 {
			f.From -= turnsWithin
		}
		if found, err := l.all(ctx, f); err != nil || len(found) > keys[0].Turn {
			return found, err
		}
		f.From, f.To = 0, 0
	}
	return l.all(ctx, f)
}

func (l *Ledger) all(ctx context.Context, f ledger.Filter) (all []notify.Decided, err error) {
	for d, err := range l.pages(ctx, f) {
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func (l *Ledger) pages(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
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
	found, err := collect(ctx, l, "decision", scanDecision, readDecision, notify.DecisionInstant(id).Time(), id.String())
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

// Users returns the number of users with preferences or records, erased ones
// included.
func (l *Ledger) Users(ctx context.Context) (n int64, err error) {
	err = l.pool.QueryRow(ctx, "SELECT count(*) FROM notify_users").Scan(&n)
	return n, mark(ctx, "users", err)
}
