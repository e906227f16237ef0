package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"keyfold/engine"
)

// Deadlines of connections, where DATABASE_URL names none.
const (
	dialTimeout = 5 * time.Second
	ioTimeout   = 30 * time.Second
	// idleTime is how long the server keeps a silent connection, and with it
	// the lock of a relay whose host is gone: the server is not told of that.
	idleTime = time.Minute
	// setupTime is how long a migration may take.
	setupTime = 24 * time.Hour
)

func openMySQL(text string) (*Database, error) {
	config, err := mysqlConfig(text)
	if err != nil {
		return nil, engine.ConfigurationError(reasonURL, err)
	}
	pool, err := mysqlPool(config)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(32)
	pool.SetMaxIdleConns(16)
	pool.SetConnMaxIdleTime(idleTime / 2)
	setup := func() (*sql.DB, error) {
		patient := config.Clone()
		patient.ReadTimeout = 0 // a migration of a large table takes its time
		// The connection that holds the setup's lock is silent for as long.
		patient.Params["wait_timeout"] = fmt.Sprint(int(setupTime.Seconds()))
		patient.Params["lock_wait_timeout"] = "1" // the shop's statements stand behind one that waits for the table
		// A shop's table may have a default of '0000-00-00', which a strict server takes for a fault of the change.
		patient.Params["sql_mode"] = strings.NewReplacer("NO_ZERO_DATE,", "", "NO_ZERO_IN_DATE,", "").Replace(patient.Params["sql_mode"])
		patient.ParseTime = true
		return mysqlPool(patient)
	}
	return &Database{pool: pool, dialect: mysqlDialect{}, words: mysqlWords, setup: setup}, nil
}

func mysqlPool(config *mysql.Config) (*sql.DB, error) {
	inner, err := mysql.NewConnector(config)
	if err != nil {
		return nil, engine.ConfigurationError(reasonURL, fmt.Errorf("%s: %w", urlSetting, err))
	}
	return sql.OpenDB(connector{inner}), nil
}

// connector sets what has no name common to MySQL and MariaDB.
type connector struct{ driver.Connector }

// Connect opens a connection whose statements see what others have committed
// until then. REPEATABLE READ, the default, would show a relay that has waited
// for a shard the rows as they were before.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the MySQL driver cannot run statements directly"), conn.Close())
	}
	if _, err := execer.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// mysqlConfig reads either form of a MySQL DATABASE_URL.
func mysqlConfig(text string) (*mysql.Config, error) {
	name := text
	if strings.Contains(text, "://") {
		var err error
		if name, err = driverName(text); err != nil {
			return nil, err
		}
	}
	config, err := mysql.ParseDSN(name)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: expected %s", urlSetting, urlForms)
	}
	if config.DBName == "" {
		return nil, fmt.Errorf("%s names no database: add its name, as in mysql://user:password@host:3306/name", urlSetting)
	}
	config.Timeout = cmp.Or(config.Timeout, dialTimeout)
	config.ReadTimeout, config.WriteTimeout = cmp.Or(config.ReadTimeout, ioTimeout), cmp.Or(config.WriteTimeout, ioTimeout)
	config.Loc = time.UTC
	config.ParseTime, config.ClientFoundRows, config.MultiStatements = false, false, false
	if config.MaxAllowedPacket == mysql.NewConfig().MaxAllowedPacket {
		config.MaxAllowedPacket = 0 // the server's: it ends a connection that sends more
	}
	config.InterpolateParams = true // one round trip per statement instead of three
	config.Logger = &mysql.NopLogger{}
	if config.Params == nil {
		config.Params = map[string]string{}
	}
	config.Params["time_zone"] = "'+00:00'"
	config.Params["sql_mode"] = "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
	config.Params["lock_wait_timeout"] = "5"        // a table may be locked for long
	config.Params["innodb_lock_wait_timeout"] = "1" // a shop's transaction may hold a row of users for long
	config.Params["wait_timeout"] = fmt.Sprint(int(idleTime.Seconds()))
	return config, config.Apply(mysql.Charset("utf8mb4", ""))
}

const urlForms = "mysql://user:password@host:3306/name, user:password@tcp(host:3306)/name, postgres://user:password@host:5432/name or sqlite:///path/file"

// driverName translates a URL, as other languages write it, to the form of Go's
// driver.
func driverName(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		// The parser's own words quote the URL, and with it the password.
		return "", fmt.Errorf("%s cannot be read: expected %s, with %%40 for @ in a password and the like", urlSetting, urlForms)
	}
	if u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return "", fmt.Errorf("%s has the scheme %q: expected %s", urlSetting, u.Scheme, urlForms)
	}
	config := mysql.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr = "tcp", u.Host
	if u.Port() == "" {
		config.Addr += ":3306"
	}
	config.DBName = strings.TrimPrefix(u.Path, "/")
	query := u.Query()
	if socket := query.Get("unix_socket"); socket != "" {
		config.Net, config.Addr = "unix", socket
	}
	for _, foreign := range []string{"serverVersion", "charset", "unix_socket", "driver"} {
		query.Del(foreign) // Doctrine's own
	}
	name := config.FormatDSN()
	if len(query) == 0 {
		return name, nil
	}
	separator := "?"
	if strings.Contains(name[strings.LastIndexByte(name, '/'):], "?") {
		separator = "&"
	}
	return name + separator + query.Encode(), nil
}
