package inbox

import (
	"context"
	"database/sql"
	"fmt"
)

// Forgotten counts the rows that [Forget] deleted, and those it could not judge.
type Forgotten struct {
	Events int64
	Dead   int64
	Unread int64 // rows of dead whose user cannot be read
}

// Forget deletes what is stored of a user's events, whatever became of them.
// mentioned returns whose event a dead body is, 0 where that cannot be read. No
// inbox may be open on the file.
func Forget(ctx context.Context, w Writer, user int32, mentioned func(body []byte) int32) (done Forgotten, err error) {
	err = w.Write(ctx, func(tx Tx) error {
		done, err = forget(tx, user, mentioned)
		return err
	})
	if err != nil {
		return Forgotten{}, fmt.Errorf("inbox: delete the events of user %d: %w", user, err)
	}
	return done, nil
}

func forget(tx Tx, user int32, mentioned func(body []byte) int32) (done Forgotten, err error) {
	rows, err := tx.Query("SELECT id, body FROM dead WHERE user_id IS NULL")
	if err != nil {
		return done, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		var body []byte
		if err := rows.Scan(&id, &body); err != nil {
			return done, err
		}
		switch mentioned(body) {
		case user:
			ids = append(ids, id)
		case 0:
			done.Unread++
		}
	}
	if err := rows.Err(); err != nil {
		return done, err
	}
	remove := func(n *int64, query string, arg int64) {
		var result sql.Result
		if err != nil {
			return
		}
		if result, err = tx.Exec(query, arg); err == nil {
			var deleted int64
			deleted, err = result.RowsAffected()
			*n += deleted
		}
	}
	for _, id := range ids {
		remove(&done.Dead, "DELETE FROM dead WHERE id = ?", id)
	}
	remove(&done.Dead, "DELETE FROM dead WHERE user_id = ?", int64(user))
	var bodies int64 // of events that are counted themselves
	remove(&bodies, "DELETE FROM pending_bodies WHERE seq IN (SELECT seq FROM inbox WHERE user_id = ?)", int64(user))
	remove(&done.Events, "DELETE FROM inbox WHERE user_id = ?", int64(user))
	return done, err
}
