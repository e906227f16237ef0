package sqlfile

import "database/sql"

// Tx is what a function given to [File.Write] or [File.Enqueue] writes with. It
// is valid, and to be used by one goroutine, until the function returns. The
// function must not run BEGIN, COMMIT, ROLLBACK or SAVEPOINT.
type Tx struct {
	c    *connection
	open []*sql.Rows
}

// Exec runs a statement. Statements are prepared once per text, so texts should
// be few and values arguments. Errors are marked as package engine has it; after
// one that is not permanent the function should return.
func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	return t.c.exec(query, args...)
}

// Query runs a statement that returns rows and sees what the function, and every
// function before it, has written. Rows left open are closed when the function
// returns; the same text must not be run again before its rows are closed.
func (t *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	rows, err := t.c.query(query, args...)
	if err == nil {
		t.open = append(t.open, rows)
	}
	return rows, err
}

// Select runs a statement as [Tx.Query] does and reads all of its rows.
func Select[T any](t *Tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.c.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	all, err := scanAll(rows, scan)
	return all, t.c.note(err)
}

// Path returns the file's path, as it was given.
func (t *Tx) Path() string { return t.c.path }

// One reads the single row of a query; [sql.ErrNoRows] where there is none.
func (t *Tx) One(query string, into ...any) error { return one(t.c, t.c.path, query, into...) }

// finish closes the rows and notes the errors that they met on the way.
func (t *Tx) finish() {
	for _, rows := range t.open {
		_ = rows.Close()
		_ = t.c.note(rows.Err())
	}
	t.open = nil
}
