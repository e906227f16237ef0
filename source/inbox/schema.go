package inbox

import (
	"context"
	"fmt"
)

// schema is applied in order; every statement may run again.
//
// seq is the order of arrival. The pending rows have an index of their own, so
// that a start costs what is pending and not what was ever received.
var schema = [...]string{
	`CREATE TABLE IF NOT EXISTS inbox (
		seq         INTEGER PRIMARY KEY,
		digest      BLOB    NOT NULL UNIQUE,
		message_id  TEXT    NOT NULL,
		user_id     INTEGER NOT NULL,
		occurred_at INTEGER NOT NULL,
		event_type  TEXT    NOT NULL,
		body        BLOB    NOT NULL,
		received_at INTEGER NOT NULL,
		state       INTEGER NOT NULL DEFAULT 0,
		settled_at  INTEGER
	) STRICT`,
	`CREATE INDEX IF NOT EXISTS inbox_pending ON inbox (seq) WHERE state = 0`,
	`CREATE INDEX IF NOT EXISTS inbox_user ON inbox (user_id, occurred_at)`,
	`CREATE TABLE IF NOT EXISTS dead (
		id         INTEGER PRIMARY KEY,
		body_hash  BLOB    NOT NULL UNIQUE,
		message_id TEXT,
		user_id    INTEGER,
		reason     TEXT    NOT NULL,
		detail     TEXT    NOT NULL,
		body       BLOB    NOT NULL,
		first_at   INTEGER NOT NULL,
		last_at    INTEGER NOT NULL,
		times      INTEGER NOT NULL DEFAULT 1
	) STRICT`,
}

// Migrate creates the tables inbox and dead where they are missing.
func Migrate(ctx context.Context, w Writer) error {
	err := w.Write(ctx, func(tx Tx) error {
		for _, statement := range schema {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("inbox: create tables: %w", err)
	}
	return nil
}
