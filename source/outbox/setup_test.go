package outbox

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sqltest"
)

func TestSetupIsIdempotent(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 3, 10)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		must.OK(t, db.Check(t.Context()))
		if n, err := db.Count(t.Context(), Filter{}); err != nil || n != 10 {
			t.Errorf("%d rows after a second setup, %v", n, err)
		}
	})
}

func TestSetupsAtOnce(t *testing.T) {
	atOnce := func(t *testing.T, url string) {
		t.Helper()
		var group sync.WaitGroup
		for range 4 {
			db := openOnly(t, url)
			group.Go(func() {
				if err := db.Setup(t.Context(), SetupOptions{}); err != nil {
					t.Errorf("Setup: %v", err)
				}
			})
		}
		group.Wait()
		must.OK(t, openOnly(t, url).Check(t.Context()))
	}
	onServers(t, atOnce)
	t.Run("sqlite", func(t *testing.T) { atOnce(t, "sqlite://"+filepath.Join(t.TempDir(), "outbox.db")) })
}

func TestBeforeSetup(t *testing.T) {
	server := sqltest.Shared(t)
	for _, url := range []string{server.URL(server.Database(t)), postgresURL(t), "sqlite://" + filepath.Join(t.TempDir(), "new.db")} {
		db := openOnly(t, url)
		must.Fault(t, db.Check(t.Context()), reasonSchema, "outbox.Setup")
		s := storeOn(t, db, StoreConfig{})
		_, err := s.Add(t.Context(), []profile.Entry{view(t, 1, 1)})
		must.Fault(t, err, reasonSchema, "outbox.Setup")
		_, err = db.Backlog(t.Context(), 0)
		must.Fault(t, err, reasonSchema, "outbox.Setup")
	}
}

// Only setup makes a file, of a mistyped path nothing is made; and what is
// stored of users is for this system user alone, whatever the umask.
//
// Promise(security/secrets)
func TestSQLiteFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	db := openOnly(t, "sqlite://"+filepath.Join(dir, "mistyped.db"))
	must.Fault(t, db.Check(t.Context()), reasonSchema, "no such file")
	if _, err := db.Backlog(t.Context(), 0); err == nil {
		t.Error("there is a backlog in no file")
	}
	found, err := os.ReadDir(dir)
	must.OK(t, err)
	if len(found) != 0 {
		t.Errorf("made %v", found)
	}
	db = openAt(t, "sqlite://"+filepath.Join(dir, "outbox.db"))
	_, err = storeOn(t, db, StoreConfig{}).Add(t.Context(), []profile.Entry{view(t, 1, 1)})
	must.OK(t, err)
	found, err = os.ReadDir(dir)
	must.OK(t, err)
	if len(found) != 3 {
		t.Errorf("found %v, want the database, its log and the log's index", found)
	}
	for _, file := range found {
		info, err := file.Info()
		must.OK(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v", file.Name(), info.Mode())
		}
	}
}

func TestSetupOfATableThatIsNotKeyfolds(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		for _, statement := range []string{"DROP TABLE user_interactions", "DROP TABLE " + versionTable, "CREATE TABLE user_interactions (id INT)"} {
			_, err := db.pool.Exec(statement)
			must.OK(t, err)
		}
		must.Fault(t, db.Setup(t.Context(), SetupOptions{}), reasonSchema, "did not make")
	})
}

// TestSetupAfterAKilledOne finds the tables half made and no note of them.
//
// Promise(outbox/earlier-schema)
func TestSetupAfterAKilledOne(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		for _, statement := range []string{"DROP TABLE keyfold_relay_shards", "DELETE FROM " + versionTable + " WHERE version_id > 0"} {
			_, err := db.pool.Exec(statement)
			must.OK(t, err)
		}
		must.Fault(t, db.Check(t.Context()), reasonSchema, "outbox.Setup")
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		must.OK(t, db.Check(t.Context()))
		shards, err := db.heads(t.Context(), 0)
		if err != nil || len(shards) != 0 {
			t.Errorf("pending shards: %v, %v", shards, err)
		}
	})
}

func TestForeignKeysNeedTheirTables(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		must.Fault(t, db.Setup(t.Context(), SetupOptions{ForeignKeys: true}), reasonSchema, "without")
	})
}

func TestServerFaults(t *testing.T) {
	server := sqltest.Shared(t)
	name := server.Database(t)
	server.Exec(t, "CREATE OR REPLACE USER reader@'127.0.0.1' IDENTIFIED BY 's3cr3t@/'")
	server.Exec(t, "GRANT SELECT ON "+name+".* TO reader@'127.0.0.1'")
	openAt(t, server.URL(name))
	at := server.Address() + "/" + name
	check := func(url string) error { return openOnly(t, url).Check(t.Context()) }

	must.OK(t, check("mysql://reader:s3cr3t%40%2F@"+at))
	must.OK(t, check("mariadb://reader:s3cr3t%40%2F@"+at+"?serverVersion=mariadb-10.11.2&charset=utf8&timeout=3s"))
	must.OK(t, check("reader:s3cr3t@/@tcp("+server.Address()+")/"+name+"?parseTime=true&loc=Local"))
	err := check("mysql://reader:wr0ng@" + at)
	must.Fault(t, err, reasonAccess, "password")
	if strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("%q holds the password", err)
	}
	must.Fault(t, check("mysql://root@"+server.Address()+"/nowhere"), reasonDatabase, "CREATE DATABASE", "nowhere")
	s := storeOn(t, openOnly(t, "mysql://reader:s3cr3t%40%2F@"+at), StoreConfig{})
	_, err = s.Add(t.Context(), []profile.Entry{view(t, 1, 1)})
	must.Fault(t, err, reasonAccess, "INSERT")
	if err := check("mysql://root@127.0.0.1:1/" + name); !errors.Is(err, engine.ErrAway) {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestSessionSettings(t *testing.T) {
	server := sqltest.Shared(t)
	db := openOnly(t, server.URL(server.Database(t)))
	for setting, want := range map[string]string{
		"time_zone": "+00:00", "tx_isolation": "READ-COMMITTED", "character_set_client": "utf8mb4",
		"character_set_connection": "utf8mb4", "innodb_lock_wait_timeout": "1", "wait_timeout": "60",
	} {
		var got string
		must.OK(t, db.pool.QueryRow("SELECT @@"+setting).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s", setting, got, want)
		}
	}
	var mode string
	must.OK(t, db.pool.QueryRow("SELECT @@sql_mode").Scan(&mode))
	if !strings.Contains(mode, "STRICT_ALL_TABLES") {
		t.Errorf("sql_mode is %s", mode)
	}
	// The connection with the setup's lock says nothing while a migration runs.
	patient, err := db.setup()
	must.OK(t, err)
	defer patient.Close()
	var seconds int
	must.OK(t, patient.QueryRow("SELECT @@wait_timeout").Scan(&seconds))
	if seconds < 3600 {
		t.Errorf("the server ends a setup's silent connection after %d s", seconds)
	}
}

// TestSetupOfAnEarlierSchema has rows in the tables of the first version.
//
// Promise(outbox/earlier-schema): `setup` changes an earlier version's tables and keeps rows and ids.
func TestSetupOfAnEarlierSchema(t *testing.T) {
	server := sqltest.Shared(t)
	file := filepath.Join(t.TempDir(), "earlier.db")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	for flavour, url := range map[string]string{
		MariaDB: server.URL(server.Database(t)), SQLite: "sqlite://" + file,
	} {
		db := openOnly(t, url)
		files, err := migrations(flavour, "")
		must.OK(t, err)
		text, err := fs.ReadFile(files, "00001_user_interactions.sql")
		must.OK(t, err)
		_, up, _ := strings.Cut(string(text), "-- +goose Up")
		up, _, _ = strings.Cut(up, "-- +goose Down")
		for statement := range strings.SplitSeq(up, ";\n") {
			if strings.TrimSpace(statement) != "" {
				_, err := db.pool.Exec(statement)
				must.OK(t, err)
			}
		}
		for id := 1; id <= 3; id++ {
			e := view(t, int32(id), id)
			row, err := rowOf(&e, engine.Now())
			must.OK(t, err)
			_, err = db.pool.Exec("INSERT INTO user_interactions ("+strings.TrimSuffix(columns, ", headers, registered")+") VALUES "+strings.Replace(places, ", ?, TRUE", "", 1), row.values(nil)[:10]...)
			must.OK(t, err)
		}
		_, err = db.pool.Exec("DELETE FROM user_interactions WHERE id = 3")
		must.OK(t, err)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		must.OK(t, db.Check(t.Context()))
		s := storeOn(t, db, StoreConfig{})
		if fresh := add(t, s, view(t, 1, 1), view(t, 3, 3)); fresh[0] || !fresh[1] {
			t.Errorf("%s: after the setup, fresh is %v", flavour, fresh)
		}
		rows := rowsOf(t, db, Filter{})
		if len(rows) != 3 || rows[0].ID != 1 || rows[2].ID <= 3 || rows[0].TriedAt != 0 {
			t.Errorf("%s: the rows are %+v", flavour, rows)
		}
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectAll(t, 3)
	}
}

func TestURLs(t *testing.T) {
	for _, url := range []string{
		"", "oracle://u:hunter2@h/db", "postgres://u:hunter2@h/", "postgres://u:hunter2%zz@h/db", "postgresql://u:hunter2@h:x/db", "postgres://u:hunter2@h/db?sslmode=no", "mysql://u:hunter2@h", "mysql://u:hunter2@h/", "u:hunter2@tcp(h:3306)",
		"mysql://u:hunter2%zz@h/db", "sqlite:", "sqlite://", "sqlite:///:memory:", "hunter2",
	} {
		db, err := Open(url)
		if err == nil {
			db.Close()
		}
		must.Fault(t, err, reasonURL, "outbox.URL")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q holds the password", err)
		}
	}
	for url, want := range map[string]string{
		"sqlite:///a/b.db": "/a/b.db", "sqlite:b.db": "b.db", "file:/a/b%20c.db?mode=rwc": "/a/b c.db", "file:///a": "/a", "sqlite://b.db": "b.db",
	} {
		if got, ok, err := sqlitePath(url); got != want || !ok || err != nil {
			t.Errorf("%s is the file %q, %v, %v; want %q", url, got, ok, err, want)
		}
	}
	config, err := mysqlConfig("mysql://u:p%3Aq@h/db?unix_socket=/run/s&tls=skip-verify")
	must.OK(t, err)
	if config.Net != "unix" || config.Addr != "/run/s" || config.Passwd != "p:q" || config.TLSConfig != "skip-verify" {
		t.Errorf("the configuration is %+v", config)
	}
}

// Promise(security/database-mistakes)
func TestFlavours(t *testing.T) {
	for version, want := range map[string]string{
		"10.11.6-MariaDB-0+deb12u1": MariaDB, "5.5.5-10.6.0-MariaDB-log": MariaDB, "11.4.2-MariaDB": MariaDB,
		"8.0.17": MySQL, "8.4.0-cloud": MySQL, "9.1.0": MySQL, "8.0.36-28 (Percona)": MySQL, "unknown": MySQL,
		"10.5.29-MariaDB": "", "5.7.44": "", "8.0.16": "", "5.5.5-10.3.1-MariaDB": "",
	} {
		got, err := variantOf(version)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", version, got, err, want)
		}
		if err != nil {
			must.Fault(t, err, reasonOld, version)
		}
	}
}

// TestPrintedSQLIsWhatSetupRuns runs the printed statements and then a setup.
func TestPrintedSQLIsWhatSetupRuns(t *testing.T) {
	server := sqltest.Shared(t)
	for flavour, url := range map[string]string{
		MariaDB: server.URL(server.Database(t)), PostgreSQL: postgresURL(t), SQLite: "sqlite://" + filepath.Join(t.TempDir(), "printed.db"),
	} {
		text, err := SQL(flavour, SetupOptions{})
		must.OK(t, err)
		db := openOnly(t, url)
		pool, err := db.setup()
		must.OK(t, err)
		defer pool.Close()
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := pool.Exec(statement); err != nil {
				t.Fatalf("%s: %v\n%s", flavour, err, statement)
			}
		}
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		fill(t, db, 1, 3)
	}
	text, err := SQL(MySQL, SetupOptions{ForeignKeys: true})
	must.OK(t, err)
	for _, part := range []string{"utf8mb4_0900_bin", "ON DELETE CASCADE", "ON DELETE SET NULL", "(63)"} {
		if !strings.Contains(text, part) {
			t.Errorf("the SQL for MySQL lacks %q", part)
		}
	}
	if strings.Contains(text, "{{") || strings.Contains(text, "goose") {
		t.Errorf("the SQL is not plain:\n%s", text)
	}
	if _, err := SQL("oracle", SetupOptions{}); err == nil {
		t.Error("there is SQL for Oracle")
	}
}

// TestIndexes asks the server how it would find the rows: through what the
// indexes are there for, and without sorting.
func TestIndexes(t *testing.T) {
	server := sqltest.Shared(t)
	db := openAt(t, server.URL(server.Database(t)))
	fillBySQL(t, db, 50, 3000)
	_, err := db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = created_at WHERE id < 2900")
	must.OK(t, err)
	for _, nullable := range []bool{false, true} {
		db.mayBeNull.Store(&nullable)
		waits, err := db.waits(t.Context())
		must.OK(t, err)
		if nullable {
			exec(t, db, "ALTER TABLE user_interactions MODIFY processed_to_queue BOOLEAN NULL DEFAULT FALSE")
		}
		for _, condition := range waits {
			from := " FROM user_interactions FORCE INDEX (idx_unsent) WHERE " + condition + " AND shard = 5"
			explain(t, db, "SELECT id"+from+" ORDER BY id LIMIT 10", "idx_unsent")
			explain(t, db, "SELECT id"+from+" AND user_id NOT IN (7, 8) ORDER BY id LIMIT 10", "idx_unsent")
			explain(t, db, "SELECT id, body"+from+" AND id + 0 > 2950 ORDER BY id LIMIT 10", "idx_unsent")
		}
	}
	explain(t, db, "SELECT id, occurred_at FROM user_interactions FORCE INDEX (idx_processed) WHERE processed_to_queue = TRUE"+
		" AND occurred_at >= '2000-01-01' AND (occurred_at > '2000-01-01' OR id > 5) AND occurred_at < '2030-01-01' ORDER BY occurred_at, id LIMIT 10", "idx_processed")
}

func explain(t *testing.T, db *Database, query, key string) {
	t.Helper()
	var id, table, kind, possible, used, length, ref, rows, extra sql.NullString
	var selected string
	must.OK(t, db.pool.QueryRow("EXPLAIN "+query).Scan(&id, &selected, &table, &kind, &possible, &used, &length, &ref, &rows, &extra))
	if used.String != key || strings.Contains(extra.String, "filesort") || kind.String == "ALL" || key == "idx_unsent" && kind.String != "ref" {
		t.Errorf("%s: %s by %s, %s", query, kind.String, used.String, extra.String)
	}
}

func TestRelayConfig(t *testing.T) {
	must.OK(t, RelayConfig{}.Validate())
	err := RelayConfig{Batches: -1, BatchShards: 65, PollMin: 2 * time.Second, Rate: -1}.Validate()
	must.Fault(t, err, "relay_configuration", "batches at once", "batch shards", "poll", "rate")
}

func TestPrometheusText(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 2, 5)
		r := NewRelay(db, &broker{}, brisk(), quiet)
		running(t, r)
		drained(t, db)
		s := storeOn(t, db, StoreConfig{})
		must.Hold(t, "the counts are there", func() bool { return r.Stats.Sent.Load() == 5 })
		var set metric.Set
		s.Stats.Register(&set)
		r.Stats.Register(&set)
		g := NewGauge(db)
		g.Register(&set)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go g.Run(ctx)
		must.Hold(t, "the backlog is read", func() bool { return g.Unsent() == 0 })
		var text strings.Builder
		set.WritePrometheus(&text)
		for _, line := range []string{`keyfold_relay_rows_total{outcome="sent"} 5`, "keyfold_relay_delay_seconds_count 5", "keyfold_outbox_unsent 0", "keyfold_outbox_oldest_unsent_seconds 0", "keyfold_outbox_store_requests_total 0"} {
			if !strings.Contains(text.String(), line+"\n") {
				t.Errorf("no line %q in\n%s", line, text.String())
			}
		}
	})
}
