package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"

	"keyfold/engine"
)

const (
	// postgresBegin begins a transaction. A shop's transaction may hold a row of
	// users for long. The server gives up a silent transaction, and with it the lock
	// of a relay whose host is gone: the server is not told of that.
	postgresBegin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '1s'; SET LOCAL idle_in_transaction_session_timeout = '60s'"
	// postgresSetup begins one of setup, whose lock is silent while a migration runs. The
	// shop's statements stand behind one that waits for the table.
	postgresSetup = "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0"
	// postgresGiveUp is how long a statement whose context has ended waits for the
	// server's answer. Until then it is known whether it was carried out.
	postgresGiveUp = 2 * time.Second
)

func isPostgres(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

func openPostgres(text string) (*Database, error) {
	config, err := postgresConfig(text)
	if err != nil {
		return nil, engine.ConfigurationError(reasonURL, err)
	}
	inner := stdlib.GetConnector(*config, stdlib.OptionAfterConnect(untypedText), stdlib.OptionResetSession(discardCancelled))
	pool := sql.OpenDB(postgresConnector{Connector: inner, begin: postgresBegin, timeout: ioTimeout})
	pool.SetMaxOpenConns(32)
	pool.SetMaxIdleConns(16)
	pool.SetConnMaxIdleTime(idleTime / 2)
	setup := func() (*sql.DB, error) {
		return sql.OpenDB(postgresConnector{Connector: inner, begin: postgresSetup, times: true}), nil
	}
	return &Database{pool: pool, dialect: postgresDialect{}, words: postgresWords, setup: setup}, nil
}

// untypedText has texts sent without a type, so that the server reads a time or JSON
// from them as it reads them from a literal.
func untypedText(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterDefaultPgType("", "unknown")
	conn.TypeMap().RegisterDefaultPgType(pgtype.Text{}, "unknown")
	return nil
}

const postgresForm = "postgres://user:password@host:5432/name"

// postgresConfig reads a DATABASE_URL of PostgreSQL. The errors have no part of the
// password.
func postgresConfig(text string) (*pgx.ConnConfig, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: expected %s, with %%40 for @ in a password and the like", urlSetting, postgresForm)
	}
	if strings.Trim(u.Path, "/") == "" {
		return nil, fmt.Errorf("%s names no database: add its name, as in %s", urlSetting, postgresForm)
	}
	query := u.Query()
	for _, foreign := range []string{"serverVersion", "charset", "driver"} {
		query.Del(foreign) // Doctrine's own
	}
	u.RawQuery = query.Encode()
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: expected %s, and parameters that PostgreSQL's libpq knows", urlSetting, postgresForm)
	}
	// No statement is prepared: a pooler may give each transaction another connection.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	// The server reads and compares the times of statements in the session's time zone,
	// where a table that was taken over has TIMESTAMPTZ.
	maps.DeleteFunc(config.RuntimeParams, func(name, _ string) bool { return strings.EqualFold(name, "timezone") })
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["datestyle"] = "ISO"
	config.RuntimeParams["application_name"] = cmp.Or(config.RuntimeParams["application_name"], "keyfold")
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, dialTimeout)
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return postgresCancelling{&pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: postgresGiveUp}}
	}
	return config, nil
}

// postgresCancelling tells the server to end a statement whose context has ended. The
// server may get the request behind that statement's end, and would end the next one: so
// the connection, which is marked, is not used again. (pgx only waits for 100 ms.)
type postgresCancelling struct {
	*pgconn.CancelRequestContextWatcherHandler
}

// wasCancelled marks a connection that a statement was to be ended on.
const wasCancelled = "keyfold.cancelled"

// HandleCancel is called when the context ends before the statement.
func (c postgresCancelling) HandleCancel(ctx context.Context) {
	c.Conn.CustomData()[wasCancelled] = true
	c.CancelRequestContextWatcherHandler.HandleCancel(ctx)
}

// discardCancelled has the pool open another connection in place of a marked one.
func discardCancelled(_ context.Context, conn *pgx.Conn) error {
	if conn.PgConn().CustomData()[wasCancelled] != nil {
		return driver.ErrBadConn
	}
	return nil
}
