package sqlfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"keyfold/engine"
)

// readConnections is how many reads run beside each other: a few at most, as
// they compete with the engine for processors, not for the disk.
const readConnections = 4

// Reader reads a file, also while another process writes it. All methods may be
// called from any goroutine.
type Reader struct {
	path string
	pool *sql.DB

	// statements are the prepared ones by their text. The pool prepares each on
	// a connection as it is first used there.
	statements map[string]*sql.Stmt
}

// OpenReader opens an existing file read-only, for tools beside a running
// daemon. It needs write permission on the file's folder while no daemon runs,
// as readers share an index of the log.
func OpenReader(path string, s Schema) (*Reader, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, engine.ConfigurationError(reasonNotKeyfold, fmt.Errorf(
			"%s does not exist: check the data folder; the daemon creates the file when it first starts: %w", path, err))
	}
	return retryBusy(func() (*Reader, error) { return openReader(path, s) })
}

// check reads the schema's version of a file that may be anything.
func (r *Reader) check(s Schema) error {
	version, err := s.version(r, r.path)
	if err != nil {
		return err
	}
	if version < len(s.Migrations) {
		return engine.ConfigurationError(reasonNotKeyfold, fmt.Errorf(
			"%s has schema %d, this program reads %d: start the daemon of this version once", r.path, version, len(s.Migrations)))
	}
	if s.Check != nil {
		if err := s.Check(r); err != nil {
			return err
		}
	}
	return r.prepare(s.Frequent)
}

// openReader returns a reader of a file that exists.
func openReader(path string, s Schema) (*Reader, error) {
	name, err := dsn(path, modeRead)
	if err != nil {
		return nil, err
	}
	pool, err := sql.Open(driverName, name)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(readConnections)
	pool.SetMaxIdleConns(readConnections)
	if err := pool.Ping(); err != nil {
		return nil, errors.Join(markOpen(path, err), pool.Close())
	}
	r := &Reader{path: path, pool: pool, statements: map[string]*sql.Stmt{}}
	if err := r.check(s); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Path returns the file's path, as it was given.
func (r *Reader) Path() string { return r.path }

// One reads the single row of a query; [sql.ErrNoRows] where there is none.
func (r *Reader) One(query string, into ...any) error { return one(r, r.path, query, into...) }

// QueryContext runs a statement that only reads, and sees everything that was
// committed before. The rows must be closed: they hold one of few connections,
// and the log cannot shrink behind them.
func (r *Reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	var rows *sql.Rows
	var err error
	if s, ok := r.statements[query]; ok {
		rows, err = s.QueryContext(ctx, args...)
	} else {
		rows, err = r.pool.QueryContext(ctx, query, args...)
	}
	return rows, r.failed(ctx, err)
}

func (r *Reader) query(query string, args ...any) (*sql.Rows, error) {
	return r.QueryContext(context.Background(), query, args...)
}

// failed marks an error of reading. The driver reports an interrupted read in
// several ways; to the caller it is his context's end.
func (r *Reader) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%s: %w", r.path, ended)
	}
	return mark(r.path, err)
}

// prepare prepares the frequent statements.
func (r *Reader) prepare(frequent []string) error {
	for _, query := range frequent {
		s, err := r.pool.Prepare(query)
		if err != nil {
			return mark(r.path, err)
		}
		r.statements[query] = s
	}
	return nil
}

// Collect reads all rows of a query.
func Collect[T any](ctx context.Context, r *Reader, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	all, err := scanAll(rows, scan)
	return all, r.failed(ctx, err)
}

// scanAll reads all rows, or those before an error.
func scanAll[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) (all []T, err error) {
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// Count reads the one number of a query.
func (r *Reader) Count(ctx context.Context, query string, args ...any) (n int64, err error) {
	_, err = Collect(ctx, r, func(rows *sql.Rows) (struct{}, error) { return struct{}{}, rows.Scan(&n) }, query, args...)
	return n, err
}

// Close closes the connections.
func (r *Reader) Close() error {
	return mark(r.path, r.pool.Close())
}
