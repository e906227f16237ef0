package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// runner runs statements, in a transaction or each in its own.
type runner interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// each calls do for every row of a query's result.
func each(ctx context.Context, r runner, do func(scanner) error, query string, args ...any) (err error) {
	rows, err := r.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// collect returns what scan makes of each row of a query's result.
func collect[T any](ctx context.Context, r runner, scan func(scanner) (T, error), query string, args ...any) (all []T, err error) {
	err = each(ctx, r, func(s scanner) error {
		one, err := scan(s)
		all = append(all, one)
		return err
	}, query, args...)
	return all, err
}

// column is the scan of a query for one column.
func column[T any](s scanner) (value T, err error) {
	err = s.Scan(&value)
	return value, err
}

// change runs a statement and returns how many rows it changed.
func change(ctx context.Context, r runner, query string, args ...any) (int64, error) {
	result, err := r.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// list returns n places for a list.
func list(n int) string { return strings.Repeat("?, ", n-1) + "?" }

func anyOf[T any](values []T) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}
