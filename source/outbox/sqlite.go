package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"keyfold/engine"
	"keyfold/engine/causes"
)

// sqlitePath returns the file a DATABASE_URL of SQLite names; ok is false for
// one of another database.
func sqlitePath(text string) (path string, ok bool, err error) {
	scheme, rest, found := strings.Cut(text, ":")
	if !found || scheme != "sqlite" && scheme != "sqlite3" && scheme != "file" {
		return "", false, nil
	}
	rest = strings.TrimPrefix(rest, "//")
	rest, _, _ = strings.Cut(rest, "?")
	path, err = url.PathUnescape(rest)
	if err != nil || path == "" || path == "/" || strings.Contains(path, ":memory:") {
		return "", true, engine.ConfigurationError(reasonURL,
			fmt.Errorf("%s names no SQLite file: expected sqlite:///absolute/file or sqlite:relative/file", urlSetting))
	}
	return path, true, nil
}

func openSQLite(path string) (*Database, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, engine.ConfigurationError(reasonURL, fmt.Errorf("%s: %w", urlSetting, err))
	}
	absolute = resolved(absolute)
	name := sqliteName(absolute, url.Values{
		"mode":    {"rw"}, // setup makes the file, and nothing makes one of a mistyped path
		"_dqs":    {"0"},
		"_txlock": {"immediate"}, // a transaction that may write waits at its start, not in its middle
		"_pragma": {"busy_timeout(5000)", "journal_mode(wal)", "synchronous(full)", "foreign_keys(1)", "secure_delete(1)"},
	})
	pool, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, engine.ConfigurationError(reasonURL, fmt.Errorf("%s: %w", path, err))
	}
	pool.SetMaxOpenConns(8)
	pool.SetMaxIdleConns(8)
	setup := func() (*sql.DB, error) {
		// For this system user alone, as are then its log and the log's index.
		// SQLite says what is wrong with the place.
		if f, err := os.OpenFile(absolute, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close()
		}
		return sql.Open("sqlite", strings.Replace(name, "busy_timeout%285000%29", "busy_timeout%281000%29", 1)) // it is tried again
	}
	return &Database{pool: pool, dialect: &sqliteDialect{path: absolute, held: map[int]bool{}}, words: sqliteWords, setup: setup}, nil
}

// resolved returns the one path of a file that may be known by several.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path)) // the file is still to be made
	}
	return path
}

// sqliteName is what the driver opens.
func sqliteName(path string, query url.Values) string {
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: query.Encode()}
	return name.String()
}

// sqliteDialect is SQLite. Shards are held in memory: one process publishes.
type sqliteDialect struct {
	path string

	mu    sync.Mutex
	held  map[int]bool
	right func() error // gives up the right to publish; nil while it is not held
}

var sqliteWords = &words{
	migrations: goose.DialectSQLite3, server: causes.SQLite,
	findsNulls:  "SELECT 1", // SQLite itself leaves out what its column cannot be
	oldestFirst: "id", byID: " NOT INDEXED", useIndex: " INDEXED BY %", text: "%", inUnion: "SELECT * FROM (%)",
	// A transaction that may write is the only one of its kind from its beginning: no row is locked.
}

func (*sqliteDialect) try(_ context.Context, _ *sql.Tx, do func() error) error { return do() }

// errStillRead meets a write-ahead log that cannot be emptied.
var errStillRead = errors.New("another connection reads a former state of the file")

// overwrite writes the file anew, since a shop's own connection and earlier versions leave
// what they delete in it. Then it empties the write-ahead log, which has the former pages.
func (*sqliteDialect) overwrite(ctx context.Context, pool *sql.DB) error {
	if _, err := pool.ExecContext(ctx, "VACUUM"); err != nil {
		return err
	}
	var busy, pages, copied int
	err := pool.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &copied)
	if err == nil && busy != 0 {
		err = errStillRead
	}
	return err
}

func (*sqliteDialect) variant(context.Context, *sql.Conn) (string, error) { return SQLite, nil }

func (s *sqliteDialect) lockSetup(ctx context.Context, _ *sql.DB) (func(context.Context) error, error) {
	return lockFolder(ctx, s.path)
}

func (*sqliteDialect) classify(err error) class {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return classOther
	}
	switch e.Code() {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY:
		return classDuplicate
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return classCollision
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_TOOBIG, lib.SQLITE_MISMATCH:
		return classRejected
	case lib.SQLITE_ERROR, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_NOTADB, lib.SQLITE_CORRUPT, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return classFault
	default:
		return classOther
	}
}

// sqliteCauses has the causes of primary result codes.
var sqliteCauses = map[int]causes.ID{
	lib.SQLITE_NOTADB: causes.Missing, lib.SQLITE_FULL: causes.Disk, lib.SQLITE_NOMEM: causes.Memory,
	lib.SQLITE_READONLY: causes.Rights, lib.SQLITE_CANTOPEN: causes.Rights, lib.SQLITE_PERM: causes.Rights, lib.SQLITE_AUTH: causes.Rights,
}

func (s *sqliteDialect) causeOf(err error) causes.ID {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return causes.Find(err)
	}
	if s.missing(e) {
		return ""
	}
	return sqliteCauses[e.Code()&0xff]
}

// missing reports whether there is no file.
func (s *sqliteDialect) missing(e *sqlite.Error) bool {
	_, err := os.Stat(s.path)
	return errors.Is(err, fs.ErrNotExist) && e.Code()&0xff == lib.SQLITE_CANTOPEN
}

func (s *sqliteDialect) cure(err error) (reason, cure string) {
	e, _ := errors.AsType[*sqlite.Error](err)
	if s.missing(e) {
		return reasonSchema, fmt.Sprintf("there is no such file: put %s right, or run %s", urlSetting, setupCommand)
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_CORRUPT:
		return "store_corrupt", "restore the file from a backup, or save what is readable with the sqlite3 shell's .recover"
	default: // no such table or column
		return reasonSchema, "run " + setupCommand.String()
	}
}

// lease takes shards that no relay of this process holds. There is no
// transaction: SQLite has one writer, and a batch takes as long as the broker.
func (s *sqliteDialect) lease(_ context.Context, pool *sql.DB, wanted []int) (*lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.claim(); err != nil {
		return nil, err
	}
	l := &lease{run: pool}
	for _, shard := range wanted {
		if !s.held[shard] {
			s.held[shard] = true
			l.shards = append(l.shards, shard)
		}
	}
	l.end = func(bool) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, shard := range l.shards {
			delete(s.held, shard)
		}
		return nil
	}
	return l, nil
}

// errRelayed meets a second process that would publish from one SQLite file.
var errRelayed = engine.ConfigurationError("relayed_elsewhere", errors.New("another process publishes from this SQLite file, which takes one: "+
	"stop it (keyfold relay, ingest --relay, backfill, keyfold-lite), or use MySQL, MariaDB or PostgreSQL"))

// claim takes the right to publish from the file: an exclusive transaction on a
// file beside it, which ends with the process, however that ends. The caller
// holds mu.
func (s *sqliteDialect) claim() error {
	if s.right != nil {
		return nil
	}
	right, err := sql.Open("sqlite", sqliteName(s.path+"-relay", url.Values{"_txlock": {"exclusive"}}))
	if err != nil {
		return err
	}
	tx, err := right.Begin() //nolint:noctx // it outlives every call
	if err != nil {
		err = errors.Join(err, right.Close())
		if s.classify(err) == classCollision {
			return errRelayed
		}
		return err
	}
	s.right = func() error { return errors.Join(tx.Rollback(), right.Close()) }
	return nil
}

// release gives up the right to publish.
func (s *sqliteDialect) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.right == nil {
		return nil
	}
	defer func() { s.right = nil }()
	return s.right()
}

// holder cannot tell which program has the file's lock.
func (*sqliteDialect) holder(context.Context, *sql.Conn, ...string) string {
	return "another program writes to the file"
}
