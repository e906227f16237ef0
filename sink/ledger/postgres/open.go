package postgres

import (
	"context"
	"errors"
	"fmt"
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
type Ledger struct{ pool *pgxpool.Pool }

var _ notify.Ledger = (*Ledger)(nil)

// giveUp is how long a call whose context has ended waits for the server's answer.
// Until then it is known whether the call was carried out.
const giveUp = 2 * time.Second

// Open reads the address, such as postgres://user:password@host:5432/name, and makes
// a pool of at most connections; 0: as many as the address says (pool_max_conns), or
// pgxpool's own number. It connects to nothing yet.
func Open(url string, connections int) (*Ledger, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // pgx leaves the password out
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
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: giveUp}
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return &Ledger{pool}, nil
}

// Close waits until no call is under way and closes the connections.
func (l *Ledger) Close() error {
	l.pool.Close()
	return nil
}
