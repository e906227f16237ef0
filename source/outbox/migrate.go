package outbox

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// The databases [SQL] prints for.
const (
	MySQL      = "mysql"
	MariaDB    = "mariadb"
	PostgreSQL = "postgres"
	SQLite     = "sqlite"
)

// errOtherSetup meets a setup that has waited for the lock.
var errOtherSetup = cure.New("another %s has been running for a minute: wait for it, and run this again", setupCommand)

// versionTable is where the migrations that were applied are noted.
const versionTable = "keyfold_schema_version"

// idsMigration is the migration after which setup registers the ids of all rows.
const idsMigration = 3

// newestMigration is the version of the last file in migrations.
const newestMigration = 7

//go:embed migrations
var migrationFiles embed.FS

// SetupOptions say what [Database.Setup] does beside the migrations.
type SetupOptions struct {
	Patience
	// ForeignKeys ties user_id to users.id and product_id to products.id, which
	// have to exist: an event of an unknown user is then refused, and a
	// deleted user's events go with the user.
	ForeignKeys bool
}

// Setup brings the schema to this version. It may be run again, and by several
// at once.
func (d *Database) Setup(ctx context.Context, options SetupOptions) error {
	return d.settingUp(ctx, func(pool *sql.DB, conn *sql.Conn, flavour string) error {
		if err := refuseForeign(ctx, conn); err != nil {
			return err
		}
		patience := options.with(d.dialect)
		return patience.do(ctx, conn, func() error {
			if err := d.migrate(ctx, pool, conn, flavour); err != nil {
				return d.fault("migrate", err)
			}
			if err := takeOwnTypes(ctx, conn, flavour, patience); err != nil {
				return d.fault("have event_type take the shop's types", err)
			}
			if err := d.indexNulls(ctx, conn, flavour); err != nil {
				return d.fault("index rows without processed_to_queue", err)
			}
			if options.ForeignKeys {
				return d.addForeignKeys(ctx, conn, patience)
			}
			return nil
		})
	})
}

// settingUp calls do under the lock that one setup holds at a time.
func (d *Database) settingUp(ctx context.Context, do func(pool *sql.DB, conn *sql.Conn, flavour string) error) (err error) {
	pool, err := d.setup()
	if err != nil {
		return d.fault("open", err)
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return d.fault("connect", err)
	}
	defer conn.Close()
	flavour, err := d.dialect.variant(ctx, conn)
	if err != nil {
		return d.fault("read the version", err)
	}
	unlock, err := d.dialect.lockSetup(ctx, pool)
	if err != nil {
		return d.fault("wait for another setup", err)
	}
	defer func() { err = errors.Join(err, unlock(context.WithoutCancel(ctx))) }()
	return do(pool, conn, flavour)
}

func (d *Database) provider(pool *sql.DB, flavour, createdAt string) (*goose.Provider, error) {
	files, err := migrations(flavour, createdAt)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(d.words.migrations, pool, files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithAllowOutofOrder(true))
}

func (d *Database) migrate(ctx context.Context, pool *sql.DB, conn *sql.Conn, flavour string) error {
	createdAt := ""
	if flavour == MySQL || flavour == MariaDB {
		var err error
		if createdAt, err = createdAtChange(ctx, conn); err != nil {
			return err
		}
	}
	provider, err := d.provider(pool, flavour, createdAt)
	if err != nil {
		return err
	}
	// This makes the table of versions.
	if _, err := provider.GetDBVersion(ctx); err != nil {
		return err
	}
	if flavour == PostgreSQL { // its schema begins with this version, whose DDL is a transaction
		_, err := provider.Up(ctx)
		return err
	}
	if err := noteApplied(ctx, conn); err != nil {
		return err
	}
	if _, err := provider.UpTo(ctx, idsMigration); err != nil {
		return err
	}
	if err := d.registerStored(ctx, pool); err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// noteApplied notes a migration where a setup was killed between its last statement
// and the note: MySQL's ALTER TABLE is a transaction of its own, and cannot be told to
// do nothing where it has been run. Each of these adds its column last.
func noteApplied(ctx context.Context, conn *sql.Conn) error {
	for _, migration := range []struct {
		version int64
		column  string
	}{{2, "tried_at"}, {idsMigration, "registered"}, {adoptedVersion, "headers"}} {
		if !readable(ctx, conn, migration.column) {
			return nil
		}
		if err := noteVersion(ctx, conn, migration.version); err != nil {
			return err
		}
	}
	return nil
}

func noteVersion(ctx context.Context, conn *sql.Conn, version int64) error {
	_, err := conn.ExecContext(ctx, "INSERT INTO "+versionTable+" (version_id, is_applied) "+
		"SELECT ?, TRUE FROM (SELECT COUNT(*) AS n FROM "+versionTable+" WHERE version_id = ?) AS noted WHERE n = 0", version, version)
	return err
}

// registerStored registers the ids of rows that were stored by an earlier version. It
// may be run again: what it registered is marked.
func (d *Database) registerStored(ctx context.Context, pool *sql.DB) error {
	stored := &Database{pool: pool, dialect: d.dialect, words: d.words}
	for after := int64(0); ; {
		var rows []*newRow
		err := stored.transact(ctx, "register the ids of stored events", func(tx *sql.Tx) (err error) {
			rows, err = collect(ctx, tx, func(s scanner) (*newRow, error) {
				row := &newRow{}
				err := s.Scan(&row.id, &row.userID, &row.messageID)
				row.digest = digestOf(row.messageID)
				return row, err
			}, "SELECT id, user_id, message_id FROM user_interactions"+d.words.byID+
				" WHERE id > ? AND registered = FALSE AND message_id IS NOT NULL ORDER BY id LIMIT ?", after, statementRows)
			if err != nil || len(rows) == 0 {
				return err
			}
			if _, err := stored.register(ctx, tx, rows); err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "UPDATE user_interactions SET registered = TRUE WHERE id IN ("+list(len(rows))+")", anyOf(idsOf(rows))...)
			return err
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[len(rows)-1].id
	}
}

// refuseForeign refuses a user_interactions that is not keyfold's: the shop may
// have made one by the same specification.
func refuseForeign(ctx context.Context, conn *sql.Conn) error {
	if !readable(ctx, conn, "id") || readable(ctx, conn, "message_id, shard") {
		return refuseHalf(ctx, conn) // there is none, or it is ours; what else is wrong the migration will say
	}
	return engine.ConfigurationError(reasonSchema, fmt.Errorf(
		"the database has a table user_interactions that keyfold did not make: %s takes it over in place "+
			"while the shop goes on inserting (docs/howto/adopt-a-table.md), or name another database in %s", adoptCommand, urlSetting))
}

// readable reports whether user_interactions has these columns.
func readable(ctx context.Context, conn *sql.Conn, columns string) bool {
	none := func(scanner) error { return nil }
	return each(ctx, conn, none, "SELECT "+columns+" FROM user_interactions WHERE 1 = 0") == nil
}

// SQL returns the statements that [Database.Setup] runs in an empty database of
// that name: [MySQL], [MariaDB], [PostgreSQL] or [SQLite].
func SQL(flavour string, options SetupOptions) (string, error) {
	files, err := migrations(flavour, fmt.Sprintf(createdInUTC, 3))
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		_, up, _ = strings.Cut(up, "-- +goose Up")
		up = strings.NewReplacer("-- +goose StatementBegin\n", "", "-- +goose StatementEnd\n", "").Replace(up)
		all.WriteString(strings.TrimSpace(up) + "\n")
	}
	if options.ForeignKeys {
		if flavour == SQLite {
			return "", errNoForeignKeys
		}
		for _, key := range foreignKeys {
			all.WriteString("\n" + key.statement() + ";\n")
		}
	}
	return withOwnTypes(all.String()), nil
}

// migrations returns the files with their placeholders filled in: createdAt is the change
// of the column's default on MySQL and MariaDB.
func migrations(flavour, createdAt string) (fs.FS, error) {
	exact := map[string]string{MySQL: "utf8mb4_0900_bin", MariaDB: "utf8mb4_nopad_bin", PostgreSQL: "", SQLite: ""}
	collation, known := exact[flavour]
	if !known {
		return nil, engine.ConfigurationError(reasonURL,
			fmt.Errorf("there is no schema for %q: expected %s, %s, %s or %s", flavour, MySQL, MariaDB, PostgreSQL, SQLite))
	}
	folder := "migrations/" + flavour
	if flavour == MariaDB {
		folder = "migrations/mysql"
	}
	fill := strings.NewReplacer("{{exact}}", collation, "{{shards}}", shardRows(), "{{created_at}}", createdAt)
	entries, err := fs.ReadDir(migrationFiles, folder)
	if err != nil {
		return nil, err
	}
	files := fstest.MapFS{}
	for _, entry := range entries {
		text, err := fs.ReadFile(migrationFiles, path.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		files[entry.Name()] = &fstest.MapFile{Data: []byte(fill.Replace(string(text)))}
	}
	return files, nil
}

// shardRows are the rows of keyfold_relay_shards.
func shardRows() string {
	var rows []string
	for shard := range Shards {
		rows = append(rows, "("+strconv.Itoa(shard)+")")
	}
	return strings.Join(rows, ", ")
}
