package inbox

import (
	"context"
	"fmt"
)

// schema is applied in order; every statement may run again.
//
// seq is the order of arrival. The pending rows have an index of their own, so
// that a start costs what is pending and not what was ever received.
//
// An event whose source keeps its body ([Arrival.Kept]) has an empty body in
// inbox and a row in pending_bodies until it is settled. A body emptied in inbox
// itself would free no page: SQLite merges pages when rows are deleted, not when
// they shrink, and new rows go behind the old ones.
var schema = [...]string{
	`CREATE TABLE IF NOT EXISTS inbox (
		seq         INTEGER PRIMARY KEY,
		digest      BLOB    NOT NULL,
		message_id  TEXT    NOT NULL,
		user_id     INTEGER NOT NULL,
		occurred_at INTEGER NOT NULL,
		event_type  TEXT    NOT NULL,
		body        BLOB    NOT NULL,
		received_at INTEGER NOT NULL,
		state       INTEGER NOT NULL DEFAULT 0,
		settled_at  INTEGER,
		UNIQUE (user_id, digest)
	) STRICT`,
	`CREATE INDEX IF NOT EXISTS inbox_pending ON inbox (seq) WHERE state = 0`,
	`CREATE INDEX IF NOT EXISTS inbox_user ON inbox (user_id, occurred_at)`,
	`CREATE INDEX IF NOT EXISTS inbox_product_missing ON inbox (user_id) WHERE state = 3`,
	`CREATE TABLE IF NOT EXISTS pending_bodies (
		seq  INTEGER PRIMARY KEY,
		body BLOB    NOT NULL
	) STRICT`,
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
		times      INTEGER NOT NULL DEFAULT 1,
		file       TEXT    NOT NULL DEFAULT '',
		line       INTEGER NOT NULL DEFAULT 0
	) STRICT`,
}

// bodyColumn reads the body of a pending row of inbox.
const bodyColumn = `coalesce((SELECT p.body FROM pending_bodies p WHERE p.seq = inbox.seq), inbox.body)`

// Migrate creates the tables that are missing.
func Migrate(ctx context.Context, w Writer) error {
	err := w.Write(ctx, func(tx Tx) error {
		if err := widenKey(tx); err != nil {
			return err
		}
		for _, statement := range schema {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return addOrigin(tx)
	})
	if err != nil {
		return fmt.Errorf("inbox: create tables: %w", err)
	}
	return nil
}

// addOrigin adds the place of a dead body to a table that was made without it.
func addOrigin(tx Tx) error {
	known, err := hasOrigin(tx.Query)
	if err != nil || known {
		return err
	}
	for _, column := range []string{`file TEXT NOT NULL DEFAULT ''`, `line INTEGER NOT NULL DEFAULT 0`} {
		if _, err := tx.Exec(`ALTER TABLE dead ADD COLUMN ` + column); err != nil {
			return err
		}
	}
	return nil
}

// hasOrigin reports whether the table dead is there with the columns of this version.
func hasOrigin(q query) (known bool, err error) {
	err = queryRow(q, []any{&known}, `SELECT EXISTS (SELECT 1 FROM pragma_table_info('dead') WHERE name = 'line')`)
	return known, err
}

// widenKey makes a table anew whose ids are unique over all users, as they were
// once: two users' events may share an id.
func widenKey(tx Tx) error {
	var narrow int
	err := queryRow(tx.Query, []any{&narrow}, `SELECT COUNT(*) FROM sqlite_master
		WHERE type = 'table' AND name = 'inbox' AND sql NOT LIKE '%UNIQUE (user_id, digest)%'`)
	if err != nil || narrow == 0 {
		return err
	}
	for _, statement := range []string{
		`ALTER TABLE inbox RENAME TO inbox_narrow`, schema[0], `INSERT INTO inbox SELECT * FROM inbox_narrow`, `DROP TABLE inbox_narrow`,
	} {
		if _, err := tx.Exec(statement); err != nil {
			return err
		}
	}
	return nil
}
