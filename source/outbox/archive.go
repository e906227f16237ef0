package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"strconv"

	"keyfold/engine"
)

// ArchivedLetter is a dead letter of the broker to keep in SQL.
type ArchivedLetter struct {
	Queue    string
	UserID   int32 // 0 where it could not be read
	FailedAt engine.Millis
	Headers  map[string]string
	Body     []byte
}

// Archive stores letters in keyfold_failed, durably, and returns how many were new: one
// that is there is left alone, so that a run that was killed may be repeated. Bodies
// must be UTF-8 without U+0000.
func (d *Database) Archive(ctx context.Context, letters []ArchivedLetter) (stored int64, err error) {
	err = d.transact(ctx, "archive dead letters", func(tx *sql.Tx) error {
		stored = 0
		for i := range letters {
			isNew, err := d.archive(ctx, tx, &letters[i])
			if err != nil {
				return err
			}
			if isNew {
				stored++
			}
		}
		return nil
	})
	return stored, err
}

func (d *Database) archive(ctx context.Context, tx *sql.Tx, l *ArchivedLetter) (isNew bool, err error) {
	headers, err := json.Marshal(l.Headers)
	if err != nil {
		return false, err
	}
	var user any
	if l.UserID != 0 {
		user = l.UserID
	}
	now := timeText(engine.Now())
	failedAt := now
	if l.FailedAt != 0 {
		failedAt = timeText(l.FailedAt)
	}
	// An event that fails again is another letter: its time differs.
	digest := sha256.Sum256([]byte(l.Queue + "\n" + strconv.FormatInt(int64(l.FailedAt), 10) + "\n" + string(l.Body)))
	err = d.dialect.try(ctx, tx, func() error {
		_, err := tx.ExecContext(ctx, "INSERT INTO keyfold_failed (digest, user_id, body, headers, queue_name, created_at, available_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
			digest[:16], user, string(l.Body), string(headers), l.Queue, failedAt, now)
		return err
	})
	if err != nil && d.dialect.classify(err) == classDuplicate {
		return false, nil
	}
	return err == nil, err
}
