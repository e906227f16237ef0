package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"keyfold/engine"
)

// versionTable is where the migrations that were applied are noted.
const versionTable = "notify_schema_version"

// newestMigration is the version of the last file in migrations.
const newestMigration = 12

// oldestServer is the first version of PostgreSQL that is supported.
const oldestServer = 15

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() fs.FS {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // of a constant
	}
	return files
}

// Setup brings the schema to this version. It may be run again, and by several at
// once. It needs a direct connection: a lock is held between transactions.
func (l *Ledger) Setup(ctx context.Context) error { return l.setUp(ctx, newestMigration) }

func (l *Ledger) setUp(ctx context.Context, version int64) (err error) {
	if err := l.checkServer(ctx); err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(l.pool)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations(),
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return mark(ctx, "migrate", err)
}

// SQL returns the statements that [Ledger.Setup] runs in an empty database.
func SQL() string {
	names, _ := fs.Glob(migrations(), "*.sql") // of a pattern that is well-formed
	var all strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(migrations(), name)
		if err != nil {
			panic(err) // of an embedded file
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "-- +goose") {
				all.WriteString(line)
			}
		}
	}
	return all.String()
}

// Check returns nil where the server and the schema can be used: transient errors
// may pass, configuration errors name the cure. A missing partition is no fault here: the
// calls that need it say so.
func (l *Ledger) Check(ctx context.Context) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	if err := l.checkServer(ctx); err != nil {
		return err
	}
	var version int64
	err := l.pool.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&version)
	switch {
	case err != nil:
		return mark(ctx, "read the schema's version", err)
	case version < newestMigration:
		return engine.ConfigurationError(ReasonNotSetUp, fmt.Errorf(
			"the tables are of version %d, expected %d: run %s", version, newestMigration, setupCommand))
	case version > newestMigration:
		return engine.ConfigurationError(ReasonSchema, fmt.Errorf(
			"the tables are of version %d, and this program knows %d: run the newer keyfold", version, newestMigration))
	}
	ahead, err := l.DaysAhead(ctx, engine.Now())
	if err == nil {
		l.ahead.Store(int64(ahead))
	}
	return err
}

func (l *Ledger) checkServer(ctx context.Context) error {
	var version int
	if err := l.pool.QueryRow(ctx, "SELECT current_setting('server_version_num')::int / 10000").Scan(&version); err != nil {
		return mark(ctx, "connect", err)
	}
	if version < oldestServer {
		return engine.ConfigurationError(ReasonVersion, fmt.Errorf(
			"the server is PostgreSQL %d: expected %d or later: upgrade it, or name another one", version, oldestServer))
	}
	return nil
}
