package inbox

import (
	"context"
	"database/sql"
	"errors"
)

// query runs a statement that returns rows, in a transaction or beside it.
type query func(statement string, args ...any) (*sql.Rows, error)

// number reads the one number a statement answers with.
func number(ctx context.Context, r Reader, statement string) (n sql.NullInt64, err error) {
	read := func(statement string, args ...any) (*sql.Rows, error) {
		return r.QueryContext(ctx, statement, args...)
	}
	err = queryRow(read, []any{&n}, statement)
	return n, err
}

// queryRow scans the first row into dest; sql.ErrNoRows where there is none.
func queryRow(q query, dest []any, statement string, args ...any) (err error) {
	rows, err := q(statement, args...)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, rows) }()
	if !rows.Next() {
		return errors.Join(rows.Err(), sql.ErrNoRows)
	}
	return rows.Scan(dest...)
}

// joinClose closes rows and keeps both errors.
func joinClose(err error, rows *sql.Rows) error {
	return errors.Join(err, rows.Close())
}
