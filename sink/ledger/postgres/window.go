package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
)

const (
	readUsersSince = `SELECT user_id FROM notify_users
		WHERE user_id > $1 AND erased_at IS NULL AND decided_at >= $2::timestamptz ORDER BY user_id LIMIT $3`

	countErased = `SELECT count(*) FROM notify_decisions
		WHERE user_id IS NULL AND decided_at >= $1::timestamptz AND decided_at < $2::timestamptz`
)

// UsersSince returns the ids of at most n users that follow one, in the order of the ids,
// with a decision at or after since. Erased ones are left out.
func (l *Ledger) UsersSince(ctx context.Context, since engine.Millis, after string, n int) ([]string, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return collect(ctx, l, "users", pgx.RowTo[string], readUsersSince, after, since.Time(), n)
}

// CountErased returns how many decisions from one instant to before another are of erased
// users.
func (l *Ledger) CountErased(ctx context.Context, from, to engine.Millis) (n int64, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	err = l.pool.QueryRow(ctx, countErased, from.Time(), to.Time()).Scan(&n)
	return n, mark(ctx, "count the decisions of erased users", err)
}
