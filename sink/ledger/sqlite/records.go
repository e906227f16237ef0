package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

// Records yields the records of a filter until the first error. Each page is as of
// its own reading.
func (r *Reader) Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
	return f.Records(func(last *notify.Record, size int) ([]notify.Decided, error) {
		query, args := pageQuery(&f, last, size)
		return sqlfile.Collect(ctx, r.Reader, scanDecision, query, args...)
	})
}

// pageQuery returns the query of the page that follows a record, nil for the first
// page.
func pageQuery(f *ledger.Filter, last *notify.Record, size int) (query string, args []any) {
	var where []string
	condition := func(text string, arg any) {
		where, args = append(where, text), append(args, arg)
	}
	condition("decision_id >= ?", firstID(f.From))
	if f.To != 0 {
		condition("decision_id < ?", firstID(f.To))
	}
	if f.User != "" {
		condition("user_id = ?", f.User)
	}
	if f.Event != uuid.Nil {
		condition("event_id = ?", f.Event[:])
	}
	key := "decision_id"
	if f.User != "" || f.Event != uuid.Nil {
		key = "seq"
	}
	direction, beyond := " DESC", " < ?"
	if f.Oldest {
		direction, beyond = "", " > ?"
	}
	switch {
	case last == nil:
	case key == "seq":
		condition(key+beyond, last.Seq)
	default:
		condition(key+beyond, last.DecisionID[:])
	}
	return "SELECT " + decisionColumns + " FROM notify_decisions WHERE " + strings.Join(where, " AND ") +
		" ORDER BY " + key + direction + " LIMIT ?", append(args, size)
}

// firstID returns the bytes below those of every decision_id of an instant or later.
func firstID(at engine.Millis) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(max(0, at))<<16)
	return b[:6]
}

// Decision returns a record with its event, nil where there is none. Of an erased
// user there is no event.
func (r *Reader) Decision(ctx context.Context, id uuid.UUID) (*notify.Decided, error) {
	found, err := sqlfile.Collect(ctx, r.Reader, scanDecision,
		"SELECT "+decisionColumns+" FROM notify_decisions WHERE decision_id = ?", id[:])
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Decisions returns the records of ids that are there, each once and in no order, as
// [Reader.Decision] does.
func (r *Reader) Decisions(ctx context.Context, ids []uuid.UUID) ([]notify.Decided, error) {
	return sqlfile.Collect(ctx, r.Reader, scanDecision, "SELECT "+decisionColumns+
		" FROM notify_decisions WHERE decision_id IN (SELECT unhex(value) FROM json_each(?))", hexIDs(ids))
}

const countsOf = `SELECT event_type, outcome, coalesce(reasons ->> 0, '') AS reason, count(*)
	FROM (SELECT event_type, outcome, reasons FROM notify_decisions WHERE decision_id >= ? AND decision_id < ? LIMIT ?)
	GROUP BY event_type, outcome, reason`

// Counts returns how many records of a span have each type, outcome and first reason, in the
// order of these.
func (r *Reader) Counts(ctx context.Context, in ledger.Span) ([]ledger.Count, error) {
	from, to, most := firstID(in.From), bytes.Repeat([]byte{0xff}, 17), in.Most // no id has 17 bytes
	if in.To != 0 {
		to = firstID(in.To)
	}
	if most == 0 {
		most = -1 // SQLite's word for no limit
	}
	all, err := sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (c ledger.Count, err error) {
		var kind, outcome string
		err = rows.Scan(&kind, &outcome, &c.Reason, &c.N)
		c.Type, c.Outcome = notify.ParseEventType(kind), notify.ParseOutcome(outcome)
		return c, err
	}, countsOf, from, to, most)
	slices.SortFunc(all, ledger.Count.Compare)
	return all, err
}

// Users returns the number of users with preferences or records, erased ones
// included.
func (r *Reader) Users(ctx context.Context) (int64, error) {
	return r.Count(ctx, "SELECT count(*) FROM notify_users")
}

// Ahead returns how many users have a decision later than now, and the latest of
// these: their time does not run backwards.
func (r *Reader) Ahead(ctx context.Context, now engine.Millis) (users int64, latest engine.Millis, err error) {
	_, err = sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (struct{}, error) {
		return struct{}{}, rows.Scan(&users, &latest)
	}, "SELECT count(*), coalesce(max(decided_at), 0) FROM notify_users WHERE decided_at > ?", int64(now))
	return users, latest, err
}

const countRecords = "SELECT count(*) FROM notify_decisions WHERE user_id = ?"

// CountRecords returns how many records a user has.
func (r *Reader) CountRecords(ctx context.Context, user string) (int64, error) {
	return r.Count(ctx, countRecords, user)
}

// OldestDay returns 0: the records of all days are kept.
func (r *Reader) OldestDay(context.Context) (engine.Millis, error) { return 0, nil }
