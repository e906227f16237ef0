package sqlite

import (
	"context"
	"database/sql"

	"keyfold/engine"
	"keyfold/sink/sqlfile"
)

// Erased returns when each of the erased users was erased.
func (r *Reader) Erased(ctx context.Context) (map[int32]engine.Millis, error) {
	type tombstone struct {
		user int32
		at   engine.Millis
	}
	all, err := sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (t tombstone, err error) {
		err = rows.Scan(&t.user, &t.at)
		return t, err
	}, "SELECT user_id, erased_at FROM user_embeddings WHERE erased_at IS NOT NULL")
	erased := make(map[int32]engine.Millis, len(all))
	for _, t := range all {
		erased[t.user] = t.at
	}
	return erased, err
}
