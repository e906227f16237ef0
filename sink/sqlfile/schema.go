package sqlfile

import (
	"database/sql"
	"fmt"

	"keyfold/engine"
)

// Schema is what makes a file one of its kind.
type Schema struct {
	ApplicationID int32 // marks the file in SQLite's header

	// Migrations bring a file from the schema version that is their index to the
	// next. They are applied in order and never changed once released.
	Migrations []string

	Frequent []string // statements that a reader keeps prepared

	// Adopt may write into, or refuse, a file that is opened for writing and has
	// the newest schema. It runs outside a transaction. nil does neither.
	Adopt func(*Tx) error
	// Check may refuse a file that has the newest schema. nil refuses none.
	Check func(*Reader) error
}

// querier is what the connection that writes and the pool that reads have in
// common. Errors are marked.
type querier interface {
	query(query string, args ...any) (*sql.Rows, error)
}

// version returns the version of the file's schema, 0 for a file with nothing in
// it. A file of another kind, or of a newer keyfold, is a configuration fault.
func (s Schema) version(q querier, path string) (int, error) {
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
	case application != int(s.ApplicationID):
		return 0, engine.ConfigurationError(reasonNotKeyfold, fmt.Errorf(
			"%s is a database of another program, or of another part of keyfold: name another file", path))
	case version > len(s.Migrations):
		return 0, engine.ConfigurationError(reasonNewer, fmt.Errorf(
			"%s was written by a newer keyfold (schema %d, this one knows %d): run that version, or use another data folder",
			path, version, len(s.Migrations)))
	}
	return version, nil
}

// migrate creates the schema or brings it up to date, in one transaction. Two
// processes that open a new file at once do it one after the other.
func (s Schema) migrate(c *connection) error {
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	version, err := s.version(c, c.path)
	if err != nil {
		return err
	}
	for ; version < len(s.Migrations); version++ {
		if _, err := c.exec(s.Migrations[version]); err != nil {
			return err
		}
	}
	// Pragmas take no arguments.
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA application_id = %d", s.ApplicationID),
		fmt.Sprintf("PRAGMA user_version = %d", len(s.Migrations)),
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
