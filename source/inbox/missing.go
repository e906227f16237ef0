package inbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"keyfold/engine"
)

// ProductMissing returns how many stored events of each user were skipped because
// their product was unknown.
func ProductMissing(ctx context.Context, r Reader) (users map[int32]int64, err error) {
	users = map[int32]int64{}
	err = each(reading(ctx, r), func(rows *sql.Rows) error {
		var user int32
		var events int64
		err := rows.Scan(&user, &events)
		users[user] = events
		return err
	}, `SELECT user_id, count(*) FROM inbox WHERE state = 3 GROUP BY user_id`)
	if err != nil {
		return nil, fmt.Errorf("inbox: count skipped events: %w", err)
	}
	return users, nil
}

// MarkFolded marks a user's events that were skipped because their product was
// unknown, and are in the profile by now.
func MarkFolded(ctx context.Context, w Writer, user int32, messageIDs []string) error {
	list, err := json.Marshal(messageIDs)
	if err != nil {
		return err
	}
	err = w.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE inbox SET state = ?, settled_at = ?
			WHERE user_id = ? AND state = 3 AND message_id IN (SELECT value FROM json_each(?))`,
			int64(StateFolded), int64(engine.MillisOf(time.Now())), user, string(list))
		return err
	})
	if err != nil {
		return fmt.Errorf("inbox: mark skipped events of user %d as folded: %w", user, err)
	}
	return nil
}
