package sqlite

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

// finish closes the rows and notes the errors that they met on the way.
func (t *Tx) finish() {
	for _, rows := range t.open {
		_ = rows.Close()
		_ = t.c.note(rows.Err())
	}
	t.open = nil
}
