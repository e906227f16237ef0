package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"time"

	"keyfold/engine"
)

// Backlog is what waits in a database.
type Backlog struct {
	Unsent int64         // rows to publish
	Oldest engine.Millis // when the first of them was stored; 0 without any
	Failed int64         // rows set aside
}

// Age returns how long the oldest row has waited.
func (b Backlog) Age(now engine.Millis) time.Duration {
	if b.Oldest == 0 {
		return 0
	}
	return max(0, time.Duration(now-b.Oldest)*time.Millisecond)
}

// WritePrometheus writes everything in Prometheus's text format.
func (b Backlog) WritePrometheus(w io.Writer) {
	writeCounts(w, []count{{"keyfold_outbox_unsent", b.Unsent}, {"keyfold_outbox_failed", b.Failed}})
	fmt.Fprintf(w, "keyfold_outbox_oldest_unsent_seconds %g\n", b.Age(engine.Now()).Seconds())
}

// Backlog counts what waits. It reads one index entry per unsent row.
func (d *Database) Backlog(ctx context.Context) (Backlog, error) {
	var (
		b      Backlog
		first  sql.NullInt64
		stored string
	)
	table := d.dialect.through("user_interactions", "idx_unsent")
	err := d.pool.QueryRowContext(ctx, "SELECT COUNT(*), MIN(id) FROM "+table+" WHERE "+unsent).Scan(&b.Unsent, &first)
	if err != nil {
		return Backlog{}, d.fault("count unsent events", err)
	}
	err = d.pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE "+failed).Scan(&b.Failed)
	if err != nil {
		return Backlog{}, d.fault("count failed events", err)
	}
	if !first.Valid {
		return b, nil
	}
	err = d.pool.QueryRowContext(ctx, "SELECT created_at FROM user_interactions WHERE id = ?", first.Int64).Scan(&stored)
	switch {
	case err == sql.ErrNoRows: //nolint:errorlint // never wrapped
		return b, nil // it was deleted meanwhile
	case err != nil:
		return Backlog{}, d.fault("read the oldest event", err)
	}
	b.Oldest, err = parseTime(stored)
	return b, err
}

// Count returns how many rows a filter picks.
func (d *Database) Count(ctx context.Context, filter Filter) (n int64, err error) {
	query, args := filter.restrict("SELECT COUNT(*) FROM user_interactions WHERE 1 = 1", nil)
	if err := d.pool.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, d.fault("count events", err)
	}
	return n, nil
}
