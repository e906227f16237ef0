package outbox

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"keyfold/engine"
)

//go:embed adopt
var adoptFiles embed.FS

// adoptedVersion is the version of the schema that [Database.Adopt] makes. Setup goes on
// from there.
const adoptedVersion = 4

// adoption is what a shop's table needs to become keyfold's, in one dialect. The column
// shard stands last and may be NULL: so a row is marked that is still to be taken over.
type adoption struct {
	script     string // of helper tables, and of what gives new rows their shard
	columns    []string
	indexes    []string            // name (columns), as in the migrations
	indexNames string              // the query of those there are
	shard      string              // the expression
	times      string              // brings the times of a row into the form that sorts; "" where the type does
	others     string              // the query of other tables' indexes that leave no room for one of the same name; "" where none do
	types      map[string][]string // that columns may have
	typesOf    string              // the query of those they have
	marks      string              // the condition of a row that is neither sent nor unsent; "" where the type has none
}

var specifiedIndexes = []string{
	"idx_user_occurred (user_id, occurred_at DESC)", "idx_event_type (event_type)", "idx_product (product_id)", "idx_occurred (occurred_at)",
}

// slotExpression is [engine.SlotOf], and 0 for a number that no event has as its user: no
// value of the column overflows it, which would fail the shop's INSERT.
const slotExpression = "CASE WHEN user_id BETWEEN -2147483648 AND 2147483647 THEN (user_id * 2654435769 & 4294967295) >> 26 ELSE 0 END"

func adoptionOf(flavour string) adoption {
	indexes := slices.Concat(specifiedIndexes, []string{
		"idx_processed (processed_to_queue, occurred_at)",
		"idx_unsent (processed_to_queue, failed_at, shard, id, user_id)",
	})
	switch flavour {
	case SQLite:
		return adoption{
			script: "sqlite", types: sqliteTypes, typesOf: sqliteColumnTypes, marks: noMark, indexes: indexes,
			indexNames: "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'user_interactions'",
			others:     "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name <> 'user_interactions'",
			shard:      slotExpression,
			columns: []string{
				"message_id TEXT NULL", "body TEXT NULL", "attempts INTEGER NOT NULL DEFAULT 0", "sent_at TEXT NULL", "failed_at TEXT NULL",
				"last_error TEXT NULL", "tried_at TEXT NULL", "registered INTEGER NOT NULL DEFAULT 0", "duplicate INTEGER NOT NULL DEFAULT 0",
				"headers TEXT NULL", "shard INTEGER NULL",
			},
			times: ", occurred_at = COALESCE(strftime('%Y-%m-%d %H:%M:%f', occurred_at), occurred_at)" +
				", created_at = COALESCE(strftime('%Y-%m-%d %H:%M:%f', created_at), strftime('%Y-%m-%d %H:%M:%f', 'now'))",
		}
	case PostgreSQL:
		return adoption{
			script: "postgres", types: postgresTypes,
			typesOf: fmt.Sprintf(columnTypes, "(SELECT nspname FROM pg_namespace JOIN pg_class ON pg_namespace.oid = relnamespace "+
				"WHERE pg_class.oid = to_regclass('user_interactions'))"),
			shard:      strings.Replace(slotExpression, "user_id *", "user_id::bigint *", 1),
			indexNames: "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = to_regclass('user_interactions')",
			others: "SELECT relname FROM pg_class WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('user_interactions')) " +
				"AND oid NOT IN (SELECT indexrelid FROM pg_index WHERE indrelid = to_regclass('user_interactions'))",
			indexes: slices.Concat(specifiedIndexes, []string{
				"idx_processed (occurred_at, id) WHERE processed_to_queue",
				"idx_unsent (shard, (id + 0)) WHERE NOT processed_to_queue AND failed_at IS NULL",
				"idx_failed (id) WHERE NOT processed_to_queue AND failed_at IS NOT NULL", nullIndex,
			}),
			columns: []string{
				`message_id VARCHAR(128) COLLATE "C" NULL`, "body TEXT NULL", "attempts INTEGER NOT NULL DEFAULT 0", "sent_at TIMESTAMP(3) NULL",
				"failed_at TIMESTAMP(3) NULL", "last_error VARCHAR(255) NULL", "tried_at TIMESTAMP(3) NULL",
				"registered BOOLEAN NOT NULL DEFAULT FALSE", "duplicate BOOLEAN NOT NULL DEFAULT FALSE", "headers JSON NULL", "shard SMALLINT NULL",
			},
		}
	default:
		exact := "utf8mb4_0900_bin"
		if flavour == MariaDB {
			exact = "utf8mb4_nopad_bin"
		}
		return adoption{
			script: "mysql", types: mysqlTypes, typesOf: fmt.Sprintf(columnTypes, "DATABASE()"), marks: noMark, indexes: indexes,
			indexNames: "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'user_interactions'",
			shard:      slotExpression,
			columns: []string{
				"message_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE " + exact + " NULL", "body MEDIUMTEXT CHARACTER SET utf8mb4 NULL",
				"attempts INT UNSIGNED NOT NULL DEFAULT 0", "sent_at DATETIME(3) NULL", "failed_at DATETIME(3) NULL",
				"last_error VARCHAR(255) CHARACTER SET utf8mb4 NULL", "tried_at DATETIME(3) NULL", "registered BOOLEAN NOT NULL DEFAULT FALSE",
				"duplicate BOOLEAN NOT NULL DEFAULT FALSE", "headers JSON NULL", "shard TINYINT UNSIGNED NULL",
			},
		}
	}
}

// specified are the columns that a shop's table has to have.
var specified = []string{
	"id", "user_id", "event_type", "search_phrase", "product_id", "occurred_at", "metadata", "created_at", "processed_to_queue",
}

// checkSpecified refuses a table that lacks columns of the specification.
func checkSpecified(ctx context.Context, conn *sql.Conn) error {
	if err := conn.PingContext(ctx); err != nil {
		return err
	}
	var missing []string
	for _, name := range specified {
		if !readable(ctx, conn, name) {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) == len(specified):
		return engine.ConfigurationError(reasonSchema, fmt.Errorf("there is no table user_interactions that can be read: name its database in %s, "+
			"grant the user SELECT, or run %s without --adopt, which makes it", urlSetting, setupCommand))
	case len(missing) > 0:
		return engine.ConfigurationError(reasonSchema, fmt.Errorf("user_interactions lacks %s: add what is missing, as the specification has it, and run this again",
			strings.Join(missing, ", ")))
	}
	return nil
}

// widen adds what the table lacks. Each statement is done or not, and a second run goes
// on with what is missing.
func (a *adopting) widen(ctx context.Context, conn *sql.Conn) error {
	var missing []string
	for _, definition := range a.as.columns {
		name, _, _ := strings.Cut(definition, " ")
		if !readable(ctx, conn, name) {
			missing = append(missing, "ADD COLUMN "+definition)
		}
	}
	if err := a.alter(ctx, conn, missing); err != nil {
		return err
	}
	if err := a.addIndexes(ctx, conn); err != nil {
		return err
	}
	text, err := adoptFiles.ReadFile("adopt/" + a.as.script + ".sql")
	if err != nil {
		return err
	}
	for statement := range strings.SplitSeq(strings.ReplaceAll(string(text), "{{shards}}", shardRows()), ";\n\n") {
		if err := a.patience.change(ctx, conn, statement); err != nil {
			return err
		}
	}
	return nil
}

// alter changes the table in one statement, but for SQLite, which takes one column at a
// time.
func (a *adopting) alter(ctx context.Context, conn *sql.Conn, changes []string) error {
	switch {
	case len(changes) == 0:
		return nil
	case a.as.script == "mysql":
		return a.alterOnline(ctx, conn, changes)
	case a.as.script == "postgres":
		changes = []string{strings.Join(changes, ", ")}
	}
	for _, change := range changes {
		if err := a.patience.change(ctx, conn, "ALTER TABLE user_interactions "+change); err != nil {
			return err
		}
	}
	return nil
}

func (a *adopting) addIndexes(ctx context.Context, conn *sql.Conn) error {
	there, err := collect(ctx, conn, column[string], a.as.indexNames)
	if err != nil {
		return err
	}
	known := strings.ToLower(" " + strings.Join(there, " ") + " ")
	var keys []string
	for _, index := range a.as.indexes {
		name, _, _ := strings.Cut(index, " ")
		switch {
		case strings.Contains(known, " "+name+" "):
		case a.as.script == "mysql":
			keys = append(keys, "ADD KEY "+index)
		default:
			statement := "CREATE INDEX IF NOT EXISTS " + strings.Replace(index, " (", " ON user_interactions (", 1)
			if err := a.patience.change(ctx, conn, statement); err != nil {
				return err
			}
		}
	}
	return a.alter(ctx, conn, keys)
}

// alterOnline changes the table in one statement, in the first of the ways that the
// server has for it: without touching rows, beside the shop's writes, or as it can.
func (a *adopting) alterOnline(ctx context.Context, conn *sql.Conn, changes []string) (err error) {
	for _, way := range []string{", ALGORITHM=INSTANT", ", ALGORITHM=INPLACE, LOCK=NONE", ""} {
		err = a.patience.change(ctx, conn, "ALTER TABLE user_interactions "+strings.Join(changes, ", ")+way)
		refused, ok := errors.AsType[*mysql.MySQLError](err)
		if !ok || refused.Number != 1845 && refused.Number != 1846 && refused.Number != 1221 {
			return err
		}
	}
	return err
}
