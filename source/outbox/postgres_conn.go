package outbox

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresConnector makes connections that take this package's statements: with ?
// for an argument, with times as text, and with a bound on the wait for the server.
type postgresConnector struct {
	driver.Connector
	begin   string        // the statements that begin a transaction
	timeout time.Duration // of a statement; 0: none
	times   bool          // results have times as time.Time, and not as [sqlTime]
}

// Connect opens a connection.
func (c postgresConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, ok := inner.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the PostgreSQL driver made a %T", inner), inner.Close())
	}
	return &postgresConn{conn, &c}, nil
}

type postgresConn struct {
	*stdlib.Conn
	made *postgresConnector
}

// BeginTx begins a transaction with settings that end with it, in one round trip: a
// pooler may give the next transaction another session. The options are those of
// this package: none.
func (c *postgresConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	bounded, cancel := c.made.bounded(ctx)
	defer cancel()
	tx, err := c.Conn.Conn().BeginTx(bounded, pgx.TxOptions{BeginQuery: c.made.begin})
	if err != nil {
		return nil, cause(ctx, bounded, err)
	}
	return &postgresTx{ctx, c.made, tx}, nil
}

// ExecContext runs a statement.
func (c *postgresConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	bounded, cancel := c.made.bounded(ctx)
	defer cancel()
	result, err := c.Conn.ExecContext(bounded, numbered(query, len(args)), args)
	return result, cause(ctx, bounded, err)
}

// QueryContext runs a query. The bound includes the reading of its rows.
func (c *postgresConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	bounded, cancel := c.made.bounded(ctx)
	rows, err := c.Conn.QueryContext(bounded, numbered(query, len(args)), args)
	if err != nil {
		err = cause(ctx, bounded, err)
		cancel()
		return nil, err
	}
	inner, ok := rows.(*stdlib.Rows)
	if !ok {
		cancel()
		return nil, errors.Join(fmt.Errorf("the PostgreSQL driver returned %T", rows), rows.Close())
	}
	return &postgresRows{inner, c.made, ctx, bounded, cancel}, nil
}

func (c *postgresConnector) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

// errNoAnswer is what a statement ends with whose own bound was reached.
var errNoAnswer = fmt.Errorf("the server did not answer within %v", ioTimeout)

// cause returns what a statement failed with: the end of the caller's context, that of
// the statement's own bound, or the server's error.
func cause(ctx, bounded context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && postgresUnanswered(err):
		return errors.Join(ctx.Err(), err)
	case bounded.Err() != nil && postgresUnanswered(err):
		return errNoAnswer
	default:
		return err
	}
}

type postgresTx struct {
	ctx  context.Context // the driver's interface gives none at the end
	made *postgresConnector
	tx   pgx.Tx
}

// Commit ends the transaction.
func (t *postgresTx) Commit() error { return t.end(t.tx.Commit) }

// Rollback takes the transaction back.
func (t *postgresTx) Rollback() error { return t.end(t.tx.Rollback) }

// end does not heed the end of the context, as the other drivers: a transaction that is
// given up lets its locks go.
func (t *postgresTx) end(how func(context.Context) error) error {
	ctx := context.WithoutCancel(t.ctx)
	bounded, cancel := t.made.bounded(ctx)
	defer cancel()
	return cause(ctx, bounded, how(bounded))
}

type postgresRows struct {
	*stdlib.Rows
	made         *postgresConnector
	ctx, bounded context.Context // of the query, until its rows are read
	cancel       context.CancelFunc
}

// Next reads a row, with times in the form that the other databases give.
func (r *postgresRows) Next(values []driver.Value) error {
	if err := r.Rows.Next(values); err != nil {
		return cause(r.ctx, r.bounded, err)
	}
	if r.made.times {
		return nil
	}
	for i, value := range values {
		if at, ok := value.(time.Time); ok {
			values[i] = at.UTC().Format(sqlTime) // of a TIMESTAMPTZ it comes in the zone of this process
		}
	}
	return nil
}

// Close ends the query.
func (r *postgresRows) Close() error {
	defer r.cancel()
	return cause(r.ctx, r.bounded, r.Rows.Close())
}

// numbered replaces the ? of a statement with so many arguments by $1, $2 and so on. A
// ? between quotes stays, and a statement without arguments has none.
func numbered(query string, args int) string {
	if args == 0 || !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 3*args)
	quoted, n := false, 0
	for i := range len(query) {
		switch at := query[i]; {
		case at == '?' && !quoted:
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		default:
			quoted = quoted != (at == '\'')
			b.WriteByte(at)
		}
	}
	return b.String()
}
