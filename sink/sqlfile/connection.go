package sqlfile

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // registers the driver
)

const (
	driverName = "sqlite"

	// pageBytes: a profile of 1536 components and some 170 ids fits one page
	// of 16 KiB, so an update writes one page. 4 KiB pages write a fifth more
	// and chase overflow pages; 32 KiB pages write twice as much.
	pageBytes = 16 << 10

	// checkpointPages is the size of the write-ahead log, in pages, at which a
	// commit copies it into the database: 64 MiB. Busy users are copied once
	// however often they were written since, so a large log saves work; one
	// larger than this saves little more and takes longer to recover.
	checkpointPages = 64 << 20 / pageBytes

	// cacheBytes holds a whole group ([maxGroupBytes]) and the pages of the
	// busiest users, which an update would read again otherwise.
	cacheBytes = 32 << 20

	// busyMillis is how long a connection waits for another process.
	busyMillis = 5000
)

// dsn returns the driver's name for the file at path: an absolute URI, in which
// no character of the path can be taken for a parameter.
func dsn(path, mode string, pragmas ...string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	query := url.Values{
		"mode": {mode},
		// A misspelt column in double quotes is an error, not a string.
		"_dqs":    {"0"},
		"_pragma": append([]string{fmt.Sprintf("busy_timeout(%d)", busyMillis)}, pragmas...),
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute), RawQuery: query.Encode()}
	return u.String(), nil
}

// connection is the connection that writes. One goroutine uses it.
type connection struct {
	path       string
	pool       *sql.DB // of this one connection
	conn       *sql.Conn
	statements map[string]*sql.Stmt // by their text

	bound  int   // bytes of arguments since begin
	broken error // set once the transaction may have ended by itself
}

// Modes of opening, as SQLite's URIs name them.
const (
	modeCreate = "rwc"
	modeWrite  = "rw"
	modeRead   = "ro"
)

// connect opens the file for writing. No pragma here changes a file that
// exists. A new file is this system user's alone, and so are its log and the
// log's index, which get the file's mode.
func connect(path, mode string) (*connection, error) {
	if mode == modeCreate {
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close() // SQLite says what is wrong with the place
		}
	}
	name, err := dsn(path, mode,
		fmt.Sprintf("page_size(%d)", pageBytes),
		"synchronous(full)",
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages),
		// A log that grew behind a long read is cut back.
		fmt.Sprintf("journal_size_limit(%d)", checkpointPages*pageBytes),
		fmt.Sprintf("cache_size(-%d)", cacheBytes>>10),
		// What a savepoint needs to undo stays in memory.
		"temp_store(memory)",
	)
	if err != nil {
		return nil, err
	}
	pool, err := sql.Open(driverName, name)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(context.Background())
	if err != nil {
		_ = pool.Close()
		return nil, markOpen(path, err)
	}
	return &connection{path: path, pool: pool, conn: conn, statements: map[string]*sql.Stmt{}}, nil
}

func (c *connection) close() error {
	c.forgetStatements()
	_ = c.conn.Close() // hands it back to the pool, which closes it
	return mark(c.path, c.pool.Close())
}

// statement returns the prepared form of query, which is about to run with args.
func (c *connection) statement(query string, args []any) (*sql.Stmt, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	c.bound += sizeOf(args)
	if s, ok := c.statements[query]; ok {
		return s, nil
	}
	s, err := c.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, c.note(err)
	}
	c.statements[query] = s
	return s, nil
}

func (c *connection) forgetStatements() {
	for _, s := range c.statements {
		_ = s.Close() // of a statement at rest: there is nothing left to fail
	}
	clear(c.statements)
}

// exec runs a statement and remembers when it may have ended the transaction.
func (c *connection) exec(query string, args ...any) (sql.Result, error) {
	s, err := c.statement(query, args)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(context.Background(), args...)
	return result, c.note(err)
}

// query is exec for statements that return rows.
func (c *connection) query(query string, args ...any) (*sql.Rows, error) {
	s, err := c.statement(query, args)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	return rows, c.note(err)
}

// note marks err and takes the transaction out of use where err may have ended
// it.
func (c *connection) note(err error) error {
	if err == nil {
		return nil
	}
	marked := mark(c.path, err)
	if endsTransaction(err) {
		c.broken = marked
	}
	return marked
}

// commit ends the transaction.
func (c *connection) commit() error {
	_, err := c.exec("COMMIT")
	return err
}

// sizeOf returns about how many bytes args bring into the transaction.
func sizeOf(args []any) int {
	n := 64 // a row's numbers
	for _, arg := range args {
		switch a := arg.(type) {
		case []byte:
			n += len(a)
		case string:
			n += len(a)
		}
	}
	return n
}
