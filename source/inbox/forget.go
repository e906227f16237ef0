package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Forgotten counts the rows that [Forget] deleted, and those it could not judge.
type Forgotten struct {
	Events int64
	Dead   int64
	Unread int64 // rows of dead whose user cannot be read
}

// errOnlyCounted undoes a transaction that was run to count.
var errOnlyCounted = errors.New("only counted")

// Forget deletes what is stored of a user's events, pending and settled ones.
// mentioned returns whose event a dead body is, 0 where that cannot be read. No
// inbox may be open on the file. With onlyCount it says what it would delete.
func Forget(ctx context.Context, w Writer, user int32, mentioned func(body []byte) int32, onlyCount bool) (done Forgotten, err error) {
	err = w.Write(ctx, func(tx Tx) error {
		if done, err = forget(tx, user, mentioned); err == nil && onlyCount {
			err = errOnlyCounted
		}
		return err
	})
	if err != nil && !errors.Is(err, errOnlyCounted) {
		return Forgotten{}, fmt.Errorf("inbox: delete the events of user %d: %w", user, err)
	}
	return done, nil
}

func forget(tx Tx, user int32, mentioned func(body []byte) int32) (done Forgotten, err error) {
	var ids []int64
	err = each(tx.Query, func(rows *sql.Rows) error {
		var id int64
		var body []byte
		err := rows.Scan(&id, &body)
		switch mentioned(body) {
		case user:
			ids = append(ids, id)
		case 0:
			done.Unread++
		}
		return err
	}, "SELECT id, body FROM dead WHERE user_id IS NULL")
	remove := func(query string, arg any) (deleted int64) {
		var result sql.Result
		if err == nil {
			result, err = tx.Exec(query, arg)
		}
		if err == nil {
			deleted, err = result.RowsAffected()
		}
		return deleted
	}
	for _, id := range ids {
		done.Dead += remove("DELETE FROM dead WHERE id = ?", id)
	}
	done.Dead += remove("DELETE FROM dead WHERE user_id = ?", user)
	remove("DELETE FROM pending_bodies WHERE seq IN (SELECT seq FROM inbox WHERE user_id = ?)", user)
	done.Events = remove("DELETE FROM inbox WHERE user_id = ?", user)
	return done, err
}
