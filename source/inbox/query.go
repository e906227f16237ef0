package inbox

import (
	"context"
	"database/sql"
	"errors"
)

// query runs a statement that returns rows, in a transaction or beside it.
type query func(statement string, args ...any) (*sql.Rows, error)

// reading runs statements beside the transactions.
func reading(ctx context.Context, r Reader) query {
	return func(statement string, args ...any) (*sql.Rows, error) { return r.QueryContext(ctx, statement, args...) }
}

// each calls scan for every row.
func each(q query, scan func(*sql.Rows) error, statement string, args ...any) (err error) {
	rows, err := q(statement, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// queryRow scans a statement's one row into dest; [sql.ErrNoRows] where there is
// none.
func queryRow(q query, dest []any, statement string, args ...any) error {
	found := false
	err := each(q, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	}, statement, args...)
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}
