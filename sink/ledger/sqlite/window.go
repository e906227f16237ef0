package sqlite

import (
	"context"
	"database/sql"

	"keyfold/engine"
	"keyfold/sink/sqlfile"
)

// UsersSince returns the ids of at most n users that follow one, in the order of the ids,
// with a decision at or after since. Erased ones are left out.
func (r *Reader) UsersSince(ctx context.Context, since engine.Millis, after string, n int) ([]string, error) {
	return sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) },
		"SELECT user_id FROM notify_users WHERE user_id > ? AND erased_at IS NULL AND decided_at >= ? ORDER BY user_id LIMIT ?",
		after, int64(since), n)
}

// CountErased returns how many decisions from one instant to before another are of erased
// users.
func (r *Reader) CountErased(ctx context.Context, from, to engine.Millis) (int64, error) {
	return r.Count(ctx, "SELECT count(*) FROM notify_decisions WHERE user_id IS NULL AND decided_at >= ? AND decided_at < ?", int64(from), int64(to))
}
