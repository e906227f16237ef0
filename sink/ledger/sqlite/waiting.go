package sqlite

import (
	"context"
	"database/sql"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

// The type of a deferral stands in its event alone.
const countDeferrals = `SELECT event ->> 'event_type' AS type,
		sum(due_at <= ?1 AND next_at <= ?1), sum(due_at <= ?1 AND next_at > ?1),
		sum(due_at > ?1 AND due_at <= ?1 + 60000), sum(due_at > ?1 + 60000 AND due_at <= ?1 + 3600000),
		sum(due_at > ?1 + 3600000 AND due_at <= ?1 + 86400000), sum(due_at > ?1 + 86400000), min(due_at)
	FROM (SELECT event, due_at, next_at FROM notify_deferrals ORDER BY next_at LIMIT ?2) GROUP BY type ORDER BY type`

// CountDeferrals counts what waits, as of an instant, by the types' names. most bounds all of
// them, the next ones first; 0: no bound.
func (r *Reader) CountDeferrals(ctx context.Context, now engine.Millis, most int64) ([]ledger.DeferralCount, error) {
	if most == 0 {
		most = -1 // SQLite's word for no limit
	}
	return sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (c ledger.DeferralCount, err error) {
		var kind string
		err = rows.Scan(&kind, &c.Due, &c.Claimed, &c.Minute, &c.Hour, &c.Day, &c.Later, &c.Oldest)
		c.Type = notify.ParseEventType(kind)
		return c, err
	}, countDeferrals, int64(now), most)
}
