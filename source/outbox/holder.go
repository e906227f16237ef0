package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

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

// holder cannot tell which program has the file's lock.
func (*sqliteDialect) holder(context.Context, *sql.Conn, ...string) string {
	return "another program writes to the file"
}
