package sqlfile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"

	"keyfold/engine"
)

// File is an open file: its [Reader], and everything that writes. All methods may
// be called from any goroutine.
type File struct {
	path   string
	reader *Reader
	writer *writer

	closing  sync.Once
	closeErr error
}

// Open opens the file at path, which it creates where there is none; its folder
// must exist. One process should have a file open for writing: more of them wait
// for each other, correctly but slowly.
//
// A file of another program, of a newer version, damaged or not writable is an
// [engine.ConfigurationError], as is one that the schema does not adopt.
func Open(path string, s Schema) (*File, error) {
	return retryBusy(func() (*File, error) { return open(path, s) })
}

// Reader returns what reads the file. [File.Close] closes it.
func (f *File) Reader() *Reader { return f.reader }

// retryBusy opens again while another process holds the file. A connection waits
// for others by itself, but not where a file enters or leaves its write-ahead
// log: SQLite answers "busy" at once there, as waiting could be for ever.
func retryBusy[T any](open func() (T, error)) (T, error) {
	for deadline := time.Now().Add(busyMillis * time.Millisecond); ; time.Sleep(10 * time.Millisecond) {
		opened, err := open()
		if err == nil || codeOf(err) != lib.SQLITE_BUSY || time.Now().After(deadline) {
			return opened, err
		}
	}
}

func open(path string, s Schema) (*File, error) {
	c, err := connect(path, modeCreate)
	if err != nil {
		return nil, err
	}
	if err := prepare(c, s); err != nil {
		return nil, errors.Join(err, c.close())
	}
	reader, err := openReader(path, s)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	f := &File{path: path, reader: reader, writer: newWriter(c)}
	go f.writer.run()
	return f, nil
}

// prepare makes the file ready for use. It looks before it changes anything:
// the file may be another program's.
func prepare(c *connection, s Schema) error {
	if _, err := s.version(c, c.path); err != nil {
		return err
	}
	var mode string
	if err := one(c, c.path, "PRAGMA journal_mode = wal", &mode); err != nil {
		return err
	}
	if mode != "wal" {
		return engine.ConfigurationError(reasonNotWritable, fmt.Errorf(
			"%s cannot keep a write-ahead log (journal mode stays %s): put it on a local disk, not on a network share",
			c.path, mode))
	}
	if err := s.migrate(c); err != nil || s.Adopt == nil {
		return err
	}
	tx := Tx{c: c}
	defer tx.finish()
	return s.Adopt(&tx)
}

// errStillRead meets a write-ahead log that cannot be emptied.
var errStillRead = errors.New("another process reads a former state of the file")

// Rewrite makes a SQLite file anew, without what was deleted from it: SQLite only
// marks that as free. It empties the write-ahead log, which has the former pages. Nothing
// else may write the file.
func Rewrite(ctx context.Context, path string) error {
	name, err := dsn(path, modeWrite)
	if err != nil {
		return err
	}
	pool, err := sql.Open(driverName, name)
	if err != nil {
		return err
	}
	if _, err = pool.ExecContext(ctx, "VACUUM"); err == nil {
		var busy, pages, copied int
		err = pool.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &copied)
		if err == nil && busy != 0 {
			err = errStillRead
		}
	}
	return mark(path, errors.Join(err, pool.Close()))
}

// Close waits until everything queued is written and answered, then closes the
// file. Functions queued later are answered with [ErrClosed].
func (f *File) Close() error {
	f.closing.Do(func() {
		f.writer.drain()
		// The last connection to close brings the log into the database, which
		// a reading one could not.
		f.closeErr = errors.Join(f.reader.Close(), f.writer.disconnect())
	})
	return f.closeErr
}
