package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"keyfold/engine"
	"keyfold/engine/causes"
)

// postgresDialect is PostgreSQL, behind PgBouncer too: nothing that it does outside
// of setup's own transaction needs what an earlier one left in the session.
type postgresDialect struct{}

// PostgreSQL takes no hints: its indexes are made for these queries.
var postgresWords = &words{
	migrations: goose.DialectPostgres, server: causes.PostgreSQL, currentSchema: "current_schema()",
	// An index of their own finds the NULLs, which tables have that were taken over.
	findsNulls: "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('idx_unsent_null') AND indisvalid",
	// This is an expression that idx_unsent alone is sorted by. By the id itself the
	// planner would go through the primary key where it believes that most rows are unsent:
	// the whole table, for each shard that has none.
	oldestFirst: "id + 0",
	text:        "%", inUnion: "(%)", sharedLock: " FOR SHARE", rowLock: " FOR UPDATE", skipLocked: " FOR UPDATE SKIP LOCKED",
}

// oldestPostgres has the numbers of versions that one can compare: 12.0.
const oldestPostgres = 120000

func (postgresDialect) variant(ctx context.Context, conn *sql.Conn) (string, error) {
	var number int
	var version string
	err := conn.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&number, &version)
	if err != nil {
		return "", err
	}
	if number < oldestPostgres {
		return "", engine.ConfigurationError(reasonOld, fmt.Errorf("the server is PostgreSQL %s: PostgreSQL 12 or a later one is needed", version))
	}
	return PostgreSQL, nil
}

// postgresSetupLock is the number of the server's lock that one setup holds at a time.
const postgresSetupLock = 0x6b6579666f6c64 // "keyfold"

// lockSetup holds the lock in a transaction: behind a pooler, a session is not one's own.
func (d postgresDialect) lockSetup(ctx context.Context, pool *sql.DB) (func(context.Context) error, error) {
	tx, err := pool.BeginTx(context.WithoutCancel(ctx), nil) // setup ends it
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprint("SET LOCAL lock_timeout = '60s'; SELECT pg_advisory_xact_lock(", postgresSetupLock, ")")); err != nil {
		_ = tx.Rollback() // the error says more
		if d.classify(err) == classLocked {
			return nil, errOtherSetup
		}
		return nil, err
	}
	return func(context.Context) error { return tx.Commit() }, nil
}

// Codes of the server's errors, and of their classes, which are the first two
// characters. Source: PostgreSQL's src/backend/utils/errcodes.txt.
var postgresClasses = map[string]class{
	"23505": classDuplicate,
	"40001": classCollision, "40P01": classCollision, "55P03": classLocked,
	// Stopping, starting, out of connections or space, read-only after a failover,
	// and a transaction that was silent for too long.
	"08": classAway, "53": classAway, "57P01": classAway, "57P02": classAway, "57P03": classAway, "57P04": classAway, "57P05": classAway,
	"25006": classAway, "25P03": classAway, "58": classAway,
	// The value, not the server: bad, too long, out of range, no parent row, too large.
	"22": classRejected, "23": classRejected, "54": classRejected,
	"28": classFault, "3D": classFault, "3F": classFault, "42": classFault, "0A": classFault,
}

func (postgresDialect) classify(err error) class {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if class, known := postgresClasses[e.Code]; known {
			return class
		}
		return postgresClasses[e.Code[:min(2, len(e.Code))]]
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return classAway
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return classAway
	}
	for _, lost := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, errNoAnswer} {
		if errors.Is(err, lost) {
			return classAway
		}
	}
	return classOther
}

// postgresUnanswered reports whether a statement failed for the end of a context: the
// server was told to end it, or gave no answer.
func postgresUnanswered(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || e.Code == "57014"
}

// postgresCauses has the causes of codes, and of their classes.
var postgresCauses = map[string]causes.ID{
	"28": causes.Credentials, "42501": causes.Rights, "3D": causes.Missing, "25006": causes.ReadOnly,
	"53300": causes.Connections, "53100": causes.Disk, "53200": causes.Memory,
	"57P01": causes.Stopping, "57P02": causes.Stopping, "57P03": causes.Stopping,
}

// postgresNoTLS is how pgx ends a connection to a server without TLS. It has no type for it.
const postgresNoTLS = "server refused TLS connection"

func (postgresDialect) causeOf(err error) causes.ID {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return cmp.Or(postgresCauses[e.Code], postgresCauses[e.Code[:min(2, len(e.Code))]])
	}
	if strings.HasSuffix(err.Error(), postgresNoTLS) {
		return causes.NoTLS
	}
	if errors.Is(err, errNoAnswer) {
		return causes.NoAnswer
	}
	return lostOr(err, driver.ErrBadConn, sql.ErrConnDone)
}

func (postgresDialect) cure(err error) (reason, cure string) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return reasonSchema, "see the server's log"
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case e.Code == "42704" && connecting:
		return reasonURL, "check the parameters of " + urlSetting.String() + ": the server knows none of this name"
	case e.Code[:2] == "0A":
		return reasonOld, "use PostgreSQL 12 or a later one, and check the parameters of " + urlSetting.String()
	default:
		return reasonSchema, "run " + setupCommand.String()
	}
}

func (postgresDialect) overwrite(context.Context, *sql.DB) error { return nil }

// try runs do behind a savepoint, to which it goes back where do fails: PostgreSQL takes
// no statement after a failed one.
func (postgresDialect) try(ctx context.Context, tx *sql.Tx, do func() error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT attempt"); err != nil {
		return err
	}
	end := "RELEASE SAVEPOINT attempt"
	err := do()
	if err != nil {
		end = "ROLLBACK TO SAVEPOINT attempt; " + end
	}
	if _, failed := tx.ExecContext(ctx, end); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

func (postgresDialect) lease(ctx context.Context, pool *sql.DB, wanted []int) (*lease, error) {
	return lockShards(ctx, pool, "keyfold_relay_shards", wanted)
}

// release has nothing to do: the server's locks end with their transactions.
func (postgresDialect) release() error { return nil }

// holder names the oldest transaction with a lock on one of the tables.
func (postgresDialect) holder(ctx context.Context, conn *sql.Conn, tables ...string) string {
	regclasses := strings.TrimSuffix(strings.Repeat("to_regclass(?), ", len(tables)), ", ")
	var id int64
	var user, program, state, since string
	err := conn.QueryRowContext(ctx, "SELECT pid, COALESCE(usename, ''), COALESCE(application_name, ''), COALESCE(state, 'unknown'), COALESCE(xact_start::text, 'an unknown time') "+
		"FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE relation IN ("+regclasses+") AND granted AND pid <> pg_backend_pid() "+
		"ORDER BY xact_start LIMIT 1", anyOf(tables)...).Scan(&id, &user, &program, &state, &since)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("the table is locked by the transaction of process %d (user %s, program %q, %s), since %s", id, user, program, state, since)
}
