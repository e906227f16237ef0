package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"

	"keyfold/engine"
	"keyfold/engine/causes"
)

// mysqlDialect is MySQL and MariaDB.
type mysqlDialect struct{}

var mysqlWords = &words{
	migrations: goose.DialectMySQL, server: causes.MariaDB, currentSchema: "DATABASE()",
	findsNulls: "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()" +
		" AND table_name = 'user_interactions' AND column_name = 'processed_to_queue' AND is_nullable = 'YES'",
	oldestFirst: "id", byID: " FORCE INDEX (PRIMARY)", useIndex: " FORCE INDEX (%)",
	text:    "CAST(% AS CHAR)", // MySQL takes no zero date in a comparison
	inUnion: "(%)", sharedLock: " LOCK IN SHARE MODE", rowLock: " FOR UPDATE", skipLocked: " FOR UPDATE SKIP LOCKED",
}

func (mysqlDialect) try(_ context.Context, _ *sql.Tx, do func() error) error { return do() }

func (mysqlDialect) overwrite(context.Context, *sql.DB) error { return nil }

// setupLock is the name of the server's lock that one setup holds at a time.
const setupLock = "keyfold_setup"

func (mysqlDialect) lockSetup(ctx context.Context, pool *sql.DB) (func(context.Context) error, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", setupLock).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = errOtherSetup
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func(ctx context.Context) error {
		_, err := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", setupLock)
		return errors.Join(err, conn.Close())
	}, nil
}

var versionNumbers = regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)`)

func (mysqlDialect) variant(ctx context.Context, conn *sql.Conn) (string, error) {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return "", err
	}
	return variantOf(version)
}

// variantOf reads what a server says of its version: 8.0.36, or
// 10.11.6-MariaDB-log, which some proxies precede with 5.5.5-.
func variantOf(version string) (string, error) {
	flavour, oldest := MySQL, [3]int{8, 0, 17}
	if strings.Contains(strings.ToLower(version), "mariadb") {
		flavour, oldest = MariaDB, [3]int{10, 6, 0}
	}
	numbers := versionNumbers.FindStringSubmatch(strings.TrimPrefix(version, "5.5.5-"))
	if numbers == nil {
		return flavour, nil // a server that says nothing of itself
	}
	var found [3]int
	for i := range found {
		found[i], _ = strconv.Atoi(numbers[i+1]) // digits only
	}
	if slices.Compare(found[:], oldest[:]) < 0 {
		return "", engine.ConfigurationError(reasonOld, fmt.Errorf(
			"the server is %s: MySQL 8.0.17, MariaDB 10.6 or a later one is needed, for SKIP LOCKED and exact comparison", version))
	}
	return flavour, nil
}

// Numbers of server errors, as MySQL's reference lists them; 4025 is MariaDB's.
var mysqlClasses = map[uint16]class{
	1062: classDuplicate,
	1213: classCollision, 1020: classCollision, 3572: classCollision, 1205: classLocked,
	// Too many connections, stopping, killed, read-only during a failover.
	1040: classAway, 1053: classAway, 1203: classAway, 1226: classAway, 1290: classAway, 1836: classAway, 1927: classAway, 3168: classAway,
	// The value, not the server: bad, too long, out of range, no parent row.
	1048: classRejected, 1153: classRejected, 1216: classRejected, 1264: classRejected, 1265: classRejected, 1292: classRejected,
	1364: classRejected, 1366: classRejected, 1406: classRejected, 1452: classRejected, 3140: classRejected, 3141: classRejected,
	3156: classRejected, 3157: classRejected, 3819: classRejected, 4025: classRejected,
	1044: classFault, 1045: classFault, 1049: classFault, 1054: classFault, 1142: classFault, 1143: classFault,
	1146: classFault, 1193: classFault, 1227: classFault, 1273: classFault, 1698: classFault, 1129: classFault, 1130: classFault,
}

func (mysqlDialect) classify(err error) class {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return mysqlClasses[e.Number]
	}
	if errors.Is(err, mysql.ErrPktTooLarge) {
		return classRejected // found before it was sent: the connection goes on
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return classAway
	}
	for _, lost := range []error{driver.ErrBadConn, mysql.ErrInvalidConn, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, lost) {
			return classAway
		}
	}
	return classOther
}

// mysqlCauses has the causes of the numbers of server errors.
var mysqlCauses = map[uint16]causes.ID{
	1045: causes.Credentials, 1698: causes.Credentials, 1129: causes.Credentials, 1130: causes.Credentials,
	1044: causes.Rights, 1142: causes.Rights, 1143: causes.Rights, 1227: causes.Rights,
	1049: causes.Missing,
	1040: causes.Connections, 1203: causes.Connections, 1226: causes.Rate,
	1021: causes.Disk, 1114: causes.Disk,
	1037: causes.Memory, 1041: causes.Memory,
	1053: causes.Stopping, 1927: causes.Stopping,
	1290: causes.ReadOnly, 1836: causes.ReadOnly,
	3159: causes.NeedsTLS, 4151: causes.NeedsTLS,
}

func (mysqlDialect) causeOf(err error) causes.ID {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return mysqlCauses[e.Number]
	}
	if errors.Is(err, mysql.ErrNoTLS) {
		return causes.NoTLS
	}
	return lostOr(err, driver.ErrBadConn, mysql.ErrInvalidConn)
}

func (mysqlDialect) cure(err error) (reason, cure string) {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return reasonSchema, "see the server's log"
	}
	switch e.Number {
	case 1193, 1273:
		return reasonOld, "use MySQL 8.0.17, MariaDB 10.6 or a later one, and check the parameters of " + urlSetting.String()
	default:
		return reasonSchema, "run " + setupCommand.String()
	}
}

// createdInUTC follows another change of the table; %d is the number of decimals.
const createdInUTC = ",\n    ALTER COLUMN created_at SET DEFAULT (UTC_TIMESTAMP(%d))"

// createdAtChange is the change that makes the default of created_at UTC; "" where there is
// none to make. It leaves alone what a table of the shop's may have: a TIMESTAMP, which is an
// instant by CURRENT_TIMESTAMP, and a column that the shop fills by itself.
func createdAtChange(ctx context.Context, conn *sql.Conn) (string, error) {
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

// holder names the oldest open transaction of this database, which is what a lock on a
// table is waited for as a rule. It takes the right PROCESS.
func (mysqlDialect) holder(ctx context.Context, conn *sql.Conn, _ ...string) string {
	var id int64
	var user, host, since string
	err := conn.QueryRowContext(ctx, "SELECT trx_mysql_thread_id, p.user, p.host, trx_started FROM information_schema.innodb_trx "+
		"JOIN information_schema.processlist p ON p.id = trx_mysql_thread_id WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID() "+
		"ORDER BY trx_started LIMIT 1").Scan(&id, &user, &host, &since)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("the oldest open transaction of this database is of connection %d (%s@%s), since %s by the server's clock", id, user, host, since)
}
