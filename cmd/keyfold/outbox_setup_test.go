package main

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/sqltest"

	"keyfold/source/outbox"
)

// `setup` makes the tables, says so, and changes nothing the second time.
func TestSetupMakesTheTables(t *testing.T) {
	onEach(t, outbox.MariaDB, func(t *testing.T, s *shop) {
		s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready().accepted(sampleOf(t, 3)...)
		if out := s.must(t, "setup"); !strings.Contains(out, "user_interactions") {
			t.Errorf("setup says %q", out)
		}
		if n := s.count(t, "SELECT COUNT(*) FROM user_interactions"); n != 3 {
			t.Errorf("%d rows after a second setup, want 3", n)
		}
	})
}

// What `setup --print` prints can be run by hand and is what setup makes; it asks
// no server.
func TestSetupPrint(t *testing.T) {
	nowhere := &shop{stack: &stack{dsn: "amqp://127.0.0.1:1", mongo: "mongodb://127.0.0.1:1", history: "mass"}}
	for _, kind := range []string{outbox.MySQL, outbox.MariaDB, outbox.PostgreSQL, outbox.SQLite} {
		code, out, errs := nowhere.run(t, "setup", "--print", kind)
		if code != 0 || !strings.Contains(out, "CREATE TABLE IF NOT EXISTS user_interactions") || strings.Contains(out, "{{") {
			t.Errorf("%s: exit code %d\n%s%s", kind, code, out, errs)
		}
		if kind == outbox.MySQL {
			continue // there is none to try it on
		}
		s := &shop{url: newDatabase(t, kind)}
		for _, statement := range strings.Split(out, ";\n") {
			if strings.TrimSpace(statement) != "" {
				s.exec(t, statement)
			}
		}
		if n := s.count(t, "SELECT COUNT(*) FROM keyfold_relay_shards"); n != outbox.Shards {
			t.Errorf("%s: %d shards", kind, n)
		}
	}
	for kind, want := range map[string]int{outbox.MySQL: 2, outbox.MariaDB: 2, outbox.PostgreSQL: 2} {
		_, out, _ := nowhere.run(t, "setup", "--print", kind, "--foreign-keys")
		if n := strings.Count(out, "FOREIGN KEY"); n != want {
			t.Errorf("%s: %d foreign keys, want %d\n%s", kind, n, want, out)
		}
	}
	if code, _, errs := nowhere.run(t, "setup", "--print", outbox.SQLite, "--foreign-keys"); code != cli.ExitUsage || !strings.Contains(errs, "foreign keys") {
		t.Errorf("SQLite with foreign keys: exit code %d, %s", code, errs)
	}
	if code, _, errs := nowhere.run(t, "setup", "--print", "oracle"); code != cli.ExitUsage {
		t.Errorf("an unknown database: exit code %d, %s", code, errs)
	}
}

// With --foreign-keys an event of an unknown user is refused for good, alone:
// its group's others are stored. Without the tables, setup says what is missing.
func TestSetupForeignKeys(t *testing.T) {
	t.Run(outbox.MariaDB, func(t *testing.T) { setupForeignKeys(t, newShop(t, outbox.MariaDB)) })
	t.Run(outbox.PostgreSQL, func(t *testing.T) { setupForeignKeys(t, newShop(t, outbox.PostgreSQL)) })
}

func setupForeignKeys(t *testing.T, s *shop) {
	t.Helper()
	if code, _, errs := s.run(t, "setup", "--foreign-keys"); code != cli.ExitFailure || !strings.Contains(errs, "users") {
		t.Fatalf("without a table users: exit code %d, %s", code, errs)
	}
	s.exec(t, "CREATE TABLE users (id INT PRIMARY KEY)")
	s.exec(t, "CREATE TABLE products (id INT PRIMARY KEY)")
	s.exec(t, "INSERT INTO users VALUES (1)")
	s.exec(t, "INSERT INTO products VALUES (5)")
	s.must(t, "setup", "--foreign-keys")
	s.must(t, "setup", "--foreign-keys") // again
	api := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
	view := func(user int32, product int) []byte {
		return fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","product_id":%d,"occurred_at":"2026-02-10T14:30:00Z"}`, user, product)
	}
	api.accepted(view(1, 5))
	for _, stranger := range [][]byte{view(2, 5), view(1, 6)} {
		if a := api.post(stranger); a.Code != 400 || !strings.Contains(a.Text, "store_refused") {
			t.Errorf("%s: %d %s", stranger, a.Code, a.Text)
		}
	}
	api.accepted(fmt.Appendf(nil, `{"user_id":1,"event_type":"search","search_phrase":"mug","occurred_at":"2026-02-10T14:30:00Z"}`))
	if n := s.count(t, "SELECT COUNT(*) FROM user_interactions"); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

// What is wrong with a database is said with the cure, by every command, and
// never with the password.
//
// Promise(security/database-mistakes): Wrong password, unknown database, missing tables or rights and
// an old server are said at start with the cure, never the password.
func TestDatabaseMistakes(t *testing.T) {
	server := sqltest.Shared(t)
	s := newStack(t)
	empty := server.Database(t)
	server.Exec(t, "CREATE USER IF NOT EXISTS shop IDENTIFIED BY 'right-secret'")
	server.Exec(t, "CREATE USER IF NOT EXISTS guest IDENTIFIED BY 'right-secret'")
	server.Exec(t, "GRANT ALL ON *.* TO shop")
	postgres := "postgres://postgres:right-secret@" + pgtest.Shared(t).Address() + "/"
	old := impostor(t, server.Address())
	as := func(user, password, database string) string {
		return "mysql://" + user + ":" + password + "@" + server.Address() + "/" + database
	}
	for _, c := range []struct {
		name, url string
		says      []string
		setup     bool // is the cure
		code      int
	}{
		{"wrong password", as("shop", "wrong-secret", empty), []string{"DATABASE_URL", "password"}, false, cli.ExitFailure},
		{"no rights", as("guest", "right-secret", empty), []string{"grant"}, false, cli.ExitFailure},
		{"unknown database", as("shop", "right-secret", "nowhere"), []string{"CREATE DATABASE"}, false, cli.ExitFailure},
		{"missing tables", as("shop", "right-secret", empty), []string{"keyfold setup"}, true, cli.ExitFailure},
		{"old server", "mysql://shop:right-secret@" + old + "/" + empty, []string{"10.05", "MariaDB 10.6"}, false, cli.ExitFailure},
		{"no such scheme", "oracle://shop:right-secret@127.0.0.1/shop", []string{"DATABASE_URL", "mysql://", "postgres://"}, false, cli.ExitUsage},
		{"PostgreSQL, unknown database", postgres + "nowhere?sslmode=disable", []string{"CREATE DATABASE"}, false, cli.ExitFailure},
		{"PostgreSQL, missing tables", postgres + "postgres?sslmode=disable", []string{"keyfold setup"}, true, cli.ExitFailure},
		{"PostgreSQL, unreadable", "postgres://shop:right-secret@[::1/shop", []string{"DATABASE_URL"}, false, cli.ExitUsage},
		{"no such folder", "sqlite:///nowhere/at/all.db", []string{"DATABASE_URL"}, false, cli.ExitFailure},
		{"unreadable", "mysql://shop:right-secret@[::1/shop", []string{"DATABASE_URL"}, false, cli.ExitUsage},
		{"none", "", []string{"DATABASE_URL"}, true, cli.ExitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			shop := &shop{stack: s, url: c.url}
			commands := [][]string{{"ingest", "--http-addr=127.0.0.1:0"}, {"relay"}, {"outbox", "stats"}, {"outbox", "cleanup", "--yes"}, {"backfill"}, {"user", "rebuild", "1"}}
			if !c.setup {
				commands = append(commands, []string{"setup"})
			}
			for _, args := range commands {
				code, out, errs := shop.run(t, args...)
				if code != c.code {
					t.Errorf("keyfold %v: exit code %d\n%s", args, code, errs)
				}
				for _, text := range c.says {
					if !strings.Contains(errs, text) {
						t.Errorf("keyfold %v does not say %q:\n%s", args, text, errs)
					}
				}
				if strings.Contains(out+errs, "secret") {
					t.Errorf("keyfold %v shows the password:\n%s%s", args, out, errs)
				}
			}
		})
	}
}

// impostor stands in front of a server and makes it MariaDB 10.05.
func impostor(t *testing.T, server string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	var conns sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { disguise(client, server) })
		}
	})
	return l.Addr().String()
}

// ofMariaDB is a version of a length that must stay.
var ofMariaDB = regexp.MustCompile(`10\.\d\d(\.\d+-MariaDB)`)

func disguise(client net.Conn, server string) {
	defer client.Close()
	real, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(real, client)
		real.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := real.Read(buffer)
		if n > 0 {
			if _, err := client.Write(ofMariaDB.ReplaceAll(buffer[:n], []byte("10.05$1"))); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
