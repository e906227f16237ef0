package outbox

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/sqltest"
)

// kinds make the databases that tests are run on, by name.
var kinds = map[string]func(testing.TB) *Database{"mariadb": readyMariaDB, "postgres": readyPostgres, "sqlite": readySQLite}

// prepared returns a function that has a database set up once per test binary. What
// tests are given is a copy of it, for a fifth of the time of a setup.
func prepared(make func(testing.TB) (url string)) func(testing.TB) (url string) {
	var once sync.Once
	var url string
	return func(t testing.TB) string {
		t.Helper()
		once.Do(func() {
			url = make(t)
			must.OK(t, openAt(t, url).Close())
		})
		return url
	}
}

const templateName = "template_outbox"

var preparedMariaDB = prepared(func(t testing.TB) string {
	server := sqltest.Shared(t)
	server.Exec(t, "CREATE DATABASE "+templateName+" CHARACTER SET utf8mb4")
	return server.URL(templateName)
})

func readyMariaDB(t testing.TB) *Database {
	preparedMariaDB(t)
	server := sqltest.Shared(t)
	name := server.Database(t)
	db := openOnly(t, server.URL(name))
	tables, err := collect(t.Context(), db.pool, column[string], "SELECT table_name FROM information_schema.tables WHERE table_schema = ?", templateName)
	must.OK(t, err)
	for _, table := range tables {
		exec(t, db, "CREATE TABLE "+table+" LIKE "+templateName+"."+table)
		exec(t, db, "INSERT INTO "+table+" SELECT * FROM "+templateName+"."+table)
	}
	return db
}

var preparedPostgres = prepared(func(t testing.TB) string {
	server := pgtest.Shared(t)
	server.Exec(t, "CREATE DATABASE "+templateName)
	return server.URL(templateName)
})

func readyPostgres(t testing.TB) *Database {
	preparedPostgres(t)
	server := pgtest.Shared(t)
	return openOnly(t, server.URL(server.Database(t, templateName)))
}

var preparedSQLite = prepared(func(t testing.TB) string {
	dir, err := process.TempDir()
	must.OK(t, err)
	return "sqlite://" + filepath.Join(dir, "outbox.db")
})

func readySQLite(t testing.TB) *Database {
	text, err := os.ReadFile(preparedSQLite(t)[len("sqlite://"):])
	must.OK(t, err)
	path := filepath.Join(t.TempDir(), "outbox.db")
	must.OK(t, os.WriteFile(path, text, 0o600))
	return openOnly(t, "sqlite://"+path)
}
