package outbox

import (
	"context"
	"database/sql"
)

// forgetChunk is how many rows share a transaction.
const forgetChunk = 1000

// Forget deletes all rows of a user, sent or not, then the user's ids and archived dead
// letters, and returns how many rows. It may be stopped and run again. Rows that a relay is publishing at
// this moment may still become messages.
func (d *Database) Forget(ctx context.Context, user int32) (deleted int64, err error) {
	for {
		ids, err := collect(ctx, d.pool, column[int64], "SELECT id FROM user_interactions WHERE user_id = ? LIMIT ?", user, forgetChunk)
		if err != nil {
			return deleted, d.fault("look for the user's events", err)
		}
		if len(ids) == 0 {
			for _, table := range []string{"keyfold_event_ids", "keyfold_failed"} {
				if _, err := d.pool.ExecContext(ctx, "DELETE FROM "+table+" WHERE user_id = ?", user); err != nil {
					return deleted, d.fault("delete the user from "+table, err)
				}
			}
			return deleted, nil
		}
		var n int64
		err = d.transact(ctx, "delete the user's events", func(tx *sql.Tx) error {
			n, err = change(ctx, tx, "DELETE FROM user_interactions WHERE id IN ("+list(len(ids))+")", anyOf(ids)...)
			return err
		})
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
}
