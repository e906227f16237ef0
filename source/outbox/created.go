package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// createdInUTC follows another change of the table; %d is the number of decimals.
const createdInUTC = ",\n    ALTER COLUMN created_at SET DEFAULT (UTC_TIMESTAMP(%d))"

// createdAt leaves alone what a table of the shop's may have: a TIMESTAMP, which is an
// instant by CURRENT_TIMESTAMP, and a column that the shop fills by itself.
func (mysqlDialect) createdAt(ctx context.Context, conn *sql.Conn) (string, error) {
	var kind, expression string
	var decimals int
	err := conn.QueryRowContext(ctx, "SELECT data_type, COALESCE(column_default, ''), COALESCE(datetime_precision, 0) FROM information_schema.columns "+
		"WHERE table_schema = DATABASE() AND table_name = 'user_interactions' AND column_name = 'created_at'").Scan(&kind, &expression, &decimals)
	switch {
	case errors.Is(err, sql.ErrNoRows): // the first migration makes the table
		return fmt.Sprintf(createdInUTC, 3), nil
	case err != nil:
		return "", err
	case kind == "datetime" && strings.HasPrefix(strings.ToLower(expression), "current_timestamp"):
		return fmt.Sprintf(createdInUTC, decimals), nil
	}
	return "", nil
}

func (postgresDialect) createdAt(context.Context, *sql.Conn) (string, error) { return "", nil }

func (*sqliteDialect) createdAt(context.Context, *sql.Conn) (string, error) { return "", nil }
