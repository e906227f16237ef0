package sqlite

import (
	"database/sql"
	"fmt"

	"keyfold/engine"
)

// applicationID marks the file as keyfold's in SQLite's header ("kfld").
const applicationID = 0x6b666c64

// migrations bring a file from the schema version that is their index to the
// next. They are applied in order and never changed once released.
//
// The indexes keep counting off the wide rows of their tables. Neither column
// changes when a profile is written, so they cost an update nothing.
var migrations = []string{`
CREATE TABLE settings (
	one             INTEGER PRIMARY KEY CHECK (one = 1),
	dimension_count INTEGER NOT NULL,
	history         TEXT    NOT NULL,
	embedding_model TEXT    NOT NULL
) STRICT;

-- A tombstone has user_id, version and erased_at, and NULL elsewhere.
CREATE TABLE user_embeddings (
	user_id         INTEGER PRIMARY KEY,
	version         INTEGER NOT NULL,
	embedding       BLOB,    -- float64, little-endian
	dimension_count INTEGER,
	mass            REAL,
	history         TEXT,
	embedding_model TEXT,
	last_updated    INTEGER, -- this and all times: Unix milliseconds
	last_event_type TEXT,
	last_message_id TEXT,
	event_count     INTEGER,
	created_at      INTEGER,
	updated_at      INTEGER,
	applied         BLOB,    -- ids of folded events; see engine.Applied
	applied_floor   INTEGER,
	erased_at       INTEGER,
	CHECK (erased_at IS NOT NULL OR
		embedding IS NOT NULL AND length(embedding) = 8 * dimension_count)
) STRICT;

CREATE INDEX user_embeddings_erased_at ON user_embeddings (erased_at);

CREATE TABLE product_embeddings (
	product_id      INTEGER PRIMARY KEY,
	embedding       BLOB    NOT NULL, -- float32, little-endian
	dimension_count INTEGER NOT NULL,
	product_name    TEXT    NOT NULL,
	category        TEXT    NOT NULL,
	embedding_model TEXT    NOT NULL, -- '' is the configured one
	created_at      INTEGER NOT NULL,
	updated_at      INTEGER NOT NULL,
	CHECK (length(embedding) = 4 * dimension_count)
) STRICT;

CREATE INDEX product_embeddings_model ON product_embeddings (embedding_model);
`}

// querier is what the connection that writes and the pool that reads have in
// common. Errors are marked.
type querier interface {
	query(query string, args ...any) (*sql.Rows, error)
}

// schemaVersion returns the version of the file's schema, 0 for a file with
// nothing in it. A file that is not keyfold's, or of a newer keyfold, is a
// configuration fault.
func schemaVersion(q querier, path string) (int, error) {
	var application, version, tables int
	err := one(q, path, `SELECT
		(SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`, &application, &version, &tables)
	switch {
	case err != nil:
		return 0, err
	case application == 0 && version == 0 && tables == 0:
		return 0, nil
	case application != applicationID:
		return 0, engine.ConfigurationError(reasonNotKeyfold, fmt.Errorf(
			"%s is a database of another program: name another file", path))
	case version > len(migrations):
		return 0, engine.ConfigurationError(reasonNewer, fmt.Errorf(
			"%s was written by a newer keyfold (schema %d, this one knows %d): run that version, or use another data folder",
			path, version, len(migrations)))
	}
	return version, nil
}

// migrate creates the schema or brings it up to date, in one transaction. Two
// processes that open a new file at once do it one after the other.
func migrate(c *connection) error {
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	version, err := schemaVersion(c, c.path)
	if err != nil {
		return err
	}
	for ; version < len(migrations); version++ {
		if _, err := c.exec(migrations[version]); err != nil {
			return err
		}
	}
	// Pragmas take no arguments.
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", len(migrations)),
	} {
		if _, err := c.exec(pragma); err != nil {
			return err
		}
	}
	return c.commit()
}

// one reads the single row of a query; [sql.ErrNoRows] where there is none.
func one(q querier, path, query string, into ...any) error {
	rows, err := q.query(query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return mark(path, err)
		}
		return sql.ErrNoRows
	}
	if err := rows.Scan(into...); err != nil {
		return err
	}
	return mark(path, rows.Close())
}
