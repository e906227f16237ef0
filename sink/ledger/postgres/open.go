package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Ledger is a pool of connections to one database. All methods may be called from any
// goroutine.
type Ledger struct {
	// Timeout bounds each call of a worker, the wait for a free connection included;
	// [Open] sets 10 s. It is changed before the first call only. The server's own
	// statement_timeout is not used: poolers refuse or lose settings of a session.
	Timeout time.Duration

	pool  *pgxpool.Pool
	ahead atomic.Int64 // days, as of the last Check
}

var (
	_ notify.Ledger  = (*Ledger)(nil)
	_ notify.Reports = (*Ledger)(nil)
)

// giveUp is how long a call whose context has ended waits for the server's answer.
// Until then it is known whether the call was carried out.
const giveUp = 2 * time.Second

const defaultTimeout = 10 * time.Second

// Open reads the address, such as postgres://user:password@host:5432/name, and makes
// a pool of at most connections; 0: as many as the address says (pool_max_conns), or
// pgxpool's own number. It connects to nothing yet.
func Open(url string, connections int) (*Ledger, error) {
	config, err := parse(url)
	if err != nil {
		return nil, engine.ConfigurationError(ReasonAddress, fmt.Errorf(
			"the address of PostgreSQL cannot be read, expected postgres://user:password@host:5432/name: %w", err))
	}
	if config.ConnConfig.Database == "" {
		return nil, engine.ConfigurationError(ReasonAddress, errors.New(
			"the address of PostgreSQL names no database: add its name, as in postgres://user:password@host:5432/name"))
	}
	if connections > 0 {
		config.MaxConns = int32(min(connections, 1000)) //nolint:gosec // bounded
	}
	// No statement is prepared: a pooler may give each transaction another connection.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "keyfold"
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return cancelling{&pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: giveUp}}
	}
	config.AfterRelease = func(conn *pgx.Conn) bool { return conn.PgConn().CustomData()[wasCancelled] == nil }
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return &Ledger{Timeout: defaultTimeout, pool: pool}, nil
}

// parse reads an address. The error has no part of the password.
func parse(url string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		// pgx also reads host=h password=p, where secrets are hard to find and hide.
		return nil, errors.New("found no postgres:// at its beginning")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx quotes the address without its password, and with parameters that it does not know.
		text := err.Error()
		if end := strings.LastIndex(text, "`: "); end >= 0 {
			text = text[end+len("`: "):]
		}
		return nil, errors.New(text)
	}
	return config, nil
}

// bounded ends a call after [Ledger.Timeout]. That the server did not answer in time
// says that it is away.
func (l *Ledger) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.Timeout, fmt.Errorf("no answer within %v: %w", l.Timeout, engine.ErrAway))
}

// Close waits until no call is under way and closes the connections.
func (l *Ledger) Close() error {
	l.pool.Close()
	return nil
}

// cancelling tells the server to end a statement whose context has ended. The server may
// get the request behind that statement's end, and would end the next one: so the
// connection, which is marked, is not used again. (pgx only waits for 100 ms.)
type cancelling struct {
	*pgconn.CancelRequestContextWatcherHandler
}

// wasCancelled marks a connection that a statement was to be ended on.
const wasCancelled = "keyfold.cancelled"

// HandleCancel is called when the context ends before the statement.
func (c cancelling) HandleCancel(ctx context.Context) {
	c.Conn.CustomData()[wasCancelled] = true
	c.CancelRequestContextWatcherHandler.HandleCancel(ctx)
}
