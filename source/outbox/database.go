package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/causes"
)

// Database is an open DATABASE_URL. It may be used from several goroutines.
type Database struct {
	pool    *sql.DB
	dialect dialect
	words   *words
	setup   func() (*sql.DB, error) // a pool without deadlines, for migrations

	mayBeNull atomic.Pointer[bool] // processed_to_queue; nil: not known yet
}

// Open reads a DATABASE_URL. It does not connect, so that a service starts
// while its database is away; [Database.Check] does. The forms are
//
//	mysql://user:password@host:3306/name?tls=true   MySQL 8, MariaDB 10.6
//	user:password@tcp(host:3306)/name               the same, as Go's driver has it
//	postgres://user:password@host:5432/name         PostgreSQL 12
//	sqlite:///absolute/file, sqlite:relative/file, file:/absolute/file
//
// Errors are configuration faults and hold no password.
func Open(url string) (*Database, error) {
	if path, ok, err := sqlitePath(url); err != nil {
		return nil, err
	} else if ok {
		return openSQLite(path)
	}
	if isPostgres(url) {
		return openPostgres(url)
	}
	return openMySQL(url)
}

// Close closes all connections.
func (d *Database) Close() error { return errors.Join(d.dialect.release(), d.pool.Close()) }

// Check reports why nothing can be stored now: the database is away, refuses
// us, is too old, or lacks the tables of this version. It is cheap.
func (d *Database) Check(ctx context.Context) error {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return d.fault("connect", err)
	}
	defer conn.Close()
	flavour, err := d.dialect.variant(ctx, conn)
	if err != nil {
		return d.fault("read the version", err)
	}
	var applied sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT MAX(version_id) FROM "+versionTable).Scan(&applied)
	if err != nil {
		return d.fault("read the schema's version", err)
	}
	if applied.Int64 < newestMigration {
		return engine.ConfigurationError(reasonSchema, fmt.Errorf(
			"the database has schema %d, this version needs %d: run %s", applied.Int64, newestMigration, setupCommand))
	}
	if err := checkOwnTypes(ctx, conn, flavour); err != nil {
		return d.fault("read the column event_type", err)
	}
	return nil
}

// fault names what was being done when err came, and gives it its kind.
func (d *Database) fault(doing string, err error) error {
	if _, marked := errors.AsType[*engine.Error](err); marked {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("outbox: %s: %w", doing, err)
	}
	if errors.Is(err, context.DeadlineExceeded) { // the caller's, which says nothing of others' calls
		return causes.Explain(d.words.server, causes.NoAnswer, fmt.Errorf("outbox: %s: %w", doing, err))
	}
	class, id := d.dialect.classify(err), d.dialect.causeOf(err)
	switch {
	case id != "" && id.Lasts():
		return engine.ConfigurationError(cmp.Or(reasonsOf[id], id.Reason()),
			causes.Explain(d.words.server, id, fmt.Errorf("outbox: %s: %w", doing, err)))
	case class == classRejected:
		return engine.PermanentError(reasonRejected, fmt.Errorf("outbox: %s: the database rejected the event: %w", doing, err))
	case class == classFault:
		reason, cure := d.dialect.cure(err)
		return engine.ConfigurationError(reason, fmt.Errorf("outbox: %s: %w; %s", doing, err, cure))
	case class == classAway:
		return causes.Explain(d.words.server, cmp.Or(id, causes.Failing), fmt.Errorf("outbox: %s: the database is %w: %w", doing, engine.ErrAway, err))
	case id != "":
		return causes.Explain(d.words.server, id, fmt.Errorf("outbox: %s: %w", doing, err))
	default:
		return fmt.Errorf("outbox: %s: %w", doing, err)
	}
}

// lostOr returns the cause of an error that no server has answered with.
func lostOr(err error, lost ...error) causes.ID {
	for _, known := range lost {
		if errors.Is(err, known) {
			return causes.Lost
		}
	}
	return causes.Find(err)
}

// reasonsOf are the reasons of causes that had one before there was a table.
var reasonsOf = map[causes.ID]string{
	causes.Credentials: reasonAccess, causes.Rights: reasonAccess, causes.Missing: reasonDatabase,
}

// Stable reasons of marked errors.
const (
	reasonRejected      = "store_rejected"
	reasonBeforeHistory = "before_history" // pruned: it cannot be told whether the event is a repeated one
	reasonSchema        = "schema_missing"
	reasonAccess        = "access_refused"
	reasonDatabase      = "database_missing"
	reasonOld           = "database_too_old"
	reasonURL           = "database_url"
)

// maxCollisions is how often a transaction is run again that met another.
const maxCollisions = 8

// transact runs do in a transaction, again where it collided with another: do
// begins anew each time. A commit whose answer did not come is
// [engine.ErrUnknown].
func (d *Database) transact(ctx context.Context, doing string, do func(*sql.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := d.attempt(ctx, do)
		if err == nil {
			return nil
		}
		if class := d.dialect.classify(err); class != classCollision && class != classLocked || attempt == maxCollisions {
			return d.fault(doing, err)
		}
		if !backoff.Sleep(ctx, time.Duration(attempt)*(time.Millisecond+rand.N(4*time.Millisecond))) {
			return d.fault(doing, errors.Join(ctx.Err(), err))
		}
	}
}

func (d *Database) attempt(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the connection that fails here is given up
		return err
	}
	if err := tx.Commit(); err != nil {
		if d.dialect.classify(err) == classCollision {
			return err
		}
		return fmt.Errorf("commit: %w: %w", engine.ErrUnknown, err)
	}
	return nil
}
