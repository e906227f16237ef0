package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
)

func TestPostgresFaults(t *testing.T) {
	server := pgtest.Shared(t)
	name := server.Database(t, "")
	admin := openAt(t, server.URL(name))
	exec(t, admin, "CREATE ROLE reads LOGIN PASSWORD 's3cr3t@/'")
	exec(t, admin, "CREATE ROLE stays NOLOGIN")
	t.Cleanup(func() { exec(t, admin, "DROP OWNED BY reads; DROP ROLE reads; DROP ROLE stays") })
	exec(t, admin, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reads")
	at := server.Address() + "/" + name + "?sslmode=disable"
	check := func(url string) error { return openOnly(t, url).Check(t.Context()) }

	must.OK(t, check("postgres://reads:s3cr3t%40%2F@"+at))
	must.OK(t, check("postgresql://reads:s3cr3t%40%2F@"+at+"&serverVersion=15&charset=utf8&connect_timeout=3"))
	must.Fault(t, check("postgres://stays:wr0ng@"+at), reasonAccess, "password")
	must.Fault(t, check("postgres://postgres@"+server.Address()+"/nowhere?sslmode=disable"), reasonDatabase, "CREATE DATABASE", "nowhere")
	must.Fault(t, check("postgres://postgres@"+at+"&colour=red"), reasonURL, "colour", "parameters")
	s := storeOn(t, openOnly(t, "postgres://reads@"+at), StoreConfig{})
	_, err := s.Add(t.Context(), []profile.Entry{view(t, 1, 1)})
	must.Fault(t, err, reasonAccess, "INSERT")
	if err := check("postgres://postgres@127.0.0.1:1/" + name); !errors.Is(err, engine.ErrAway) {
		t.Errorf("no server listens there: %v", err)
	}
	exec(t, admin, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	_, err = storeOn(t, openOnly(t, server.URL(name)), StoreConfig{}).Add(t.Context(), []profile.Entry{view(t, 1, 1)})
	if !errors.Is(err, engine.ErrAway) {
		t.Errorf("a server that takes no writes: %v", err)
	}
}

// A transaction has bounds that end with it: a pooler gives its session to others.
//
// Promise(outbox/pgbouncer)
func TestPostgresTransactionsHaveBounds(t *testing.T) {
	db := openAt(t, postgresURL(t))
	db.pool.SetMaxOpenConns(1)
	shown := func(run runner, setting, want string) {
		t.Helper()
		got, err := collect(t.Context(), run, column[string], "SELECT current_setting(?)", setting)
		must.OK(t, err)
		if got[0] != want {
			t.Errorf("%s is %s, want %s", setting, got[0], want)
		}
	}
	l, err := db.dialect.lease(t.Context(), db.pool, []int{1, 5, 63})
	must.OK(t, err)
	if len(l.shards) != 3 {
		t.Errorf("the lease has the shards %v", l.shards)
	}
	shown(l.run, "lock_timeout", "1s")
	shown(l.run, "idle_in_transaction_session_timeout", "1min")
	shown(l.run, "transaction_isolation", "read committed")
	must.OK(t, l.end(true))
	shown(db.pool, "lock_timeout", "0")
	shown(db.pool, "idle_in_transaction_session_timeout", "0")
	if n, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM pg_prepared_statements"); n != 0 || err != nil {
		t.Errorf("the session has %d prepared statements, %v", n, err)
	}
}

// Behind a PgBouncer in transaction mode, whose connections are fewer than the
// transactions that want one, setups, stores and relays go on as without it.
//
// Promise(outbox/pgbouncer): Behind a PgBouncer in transaction mode setups, stores and relays go on as
// without; waits for locks and lost relays are bounded.
func TestPostgresBehindAPooler(t *testing.T) {
	server := pgtest.Shared(t)
	pooler := pgtest.StartPooler(t, server, 4)
	url := pooler.URL(server.Database(t, ""))
	var all sync.WaitGroup
	for range 2 {
		db := openOnly(t, url)
		all.Go(func() {
			if err := db.Setup(t.Context(), SetupOptions{}); err != nil {
				t.Errorf("Setup: %v", err)
			}
		})
	}
	all.Wait()
	b := &broker{}
	for range 2 {
		db := openOnly(t, url)
		must.OK(t, db.Check(t.Context()))
		config := brisk()
		config.Batches, config.BatchShards = 1, 4
		running(t, NewRelay(db, b, config, quiet))
	}
	db := openOnly(t, url)
	s := storeOn(t, db, StoreConfig{})
	for user := range int32(16) {
		all.Go(func() {
			for n := range 20 {
				for again := 0; again < 2; again++ {
					if fresh, err := s.Add(t.Context(), []profile.Entry{view(t, user+1, n)}); err != nil || fresh[0] != (again == 0) {
						t.Errorf("event %d of user %d: fresh is %v, %v", n, user+1, fresh, err)
					}
				}
			}
		})
	}
	all.Wait()
	drained(t, db)
	b.expectOrder(t)
	b.expectAll(t, 16*20)
}

// The trigger's arithmetic is that of the engine, and it never fails a shop's INSERT.
func TestPostgresFindsTheShardOfAShopsRow(t *testing.T) {
	db := openAt(t, postgresURL(t))
	users := []int32{1, 2, 63, 64, 65, 1000, 123456789, math.MaxInt32 - 1, math.MaxInt32, 0, -1, math.MinInt32}
	for _, user := range users {
		exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (?, 'product_view', 5, '2026-02-10 14:30:00')", user)
	}
	must.OK(t, each(t.Context(), db.pool, func(s scanner) error {
		var user int32
		var shard int
		err := s.Scan(&user, &shard)
		if shard != engine.SlotOf(user) {
			t.Errorf("user %d has the shard %d, want %d", user, shard, engine.SlotOf(user))
		}
		return err
	}, "SELECT user_id, shard FROM user_interactions"))
	for _, at := range []string{"infinity", "-infinity", "12026-02-10", "0026-02-10 BC"} {
		if _, err := db.pool.Exec("INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (1, 'product_view', 5, ?)", at); err == nil {
			t.Errorf("%s is stored as a time", at)
		}
	}
}

func TestPostgresPlaces(t *testing.T) {
	for query, want := range map[string]string{
		"SELECT 1":                          "SELECT 1",
		"a = ? AND b IN (?, ?)":             "a = $1 AND b IN ($2, $3)",
		"a = '?' AND b = ?":                 "a = '?' AND b = $1",
		"a = 'it''s ?' AND b = ? AND c='?'": "a = 'it''s ?' AND b = $1 AND c='?'",
	} {
		if got := numbered(query, 3); got != want {
			t.Errorf("%s is %s, want %s", query, got, want)
		}
	}
	if got := numbered("SELECT metadata ? 'a'", 0); !strings.Contains(got, "?") {
		t.Errorf("a statement without arguments is %s", got)
	}
}

// The server's figures of the table say that all of its rows are unsent and left to a
// backfill: a relay beside it looks for its own rows, and finds none, at no more cost.
//
// Promise(outbox/long-history)
func TestPostgresRelayBesideABackfill(t *testing.T) {
	url := postgresURL(t)
	admin := openAt(t, url)
	fillBySQL(t, admin, 500, 10_000)
	exec(t, admin, "UPDATE user_interactions SET shard = shard + 64")
	admin = analyzed(t, admin, url)
	whole, read := tuplesRead(t, admin)
	db := openOnly(t, url)
	if n, err := NewRelay(db, &broker{}, RelayConfig{}, quiet).batch(t.Context(), t.Context()); n != 0 || err != nil {
		t.Errorf("%d rows were published, %v", n, err)
	}
	must.OK(t, db.Close())
	wholeAfter, readAfter := tuplesRead(t, admin)
	if wholeAfter != whole || readAfter-read > 10 {
		t.Errorf("%d rows by whole tables, %d by indexes", wholeAfter-whole, readAfter-read)
	}
}

// analyzed has the server gather its figures of the tables, ends the sessions that
// filled them, which tell then what they have read, and opens the database again.
func analyzed(t *testing.T, db *Database, url string) *Database {
	t.Helper()
	exec(t, db, "VACUUM ANALYZE")
	must.OK(t, db.Close())
	return openOnly(t, url)
}

// tuplesRead returns how many rows were read by scans of a whole table, and how many
// entries of indexes, once the other sessions have ended, which is when they tell.
func tuplesRead(t *testing.T, db *Database) (whole, entries int64) {
	t.Helper()
	db.pool.SetMaxOpenConns(1)
	must.Hold(t, "the other sessions have ended", func() bool {
		n, err := db.countOld(context.Background(), "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		must.OK(t, err)
		return n == 0
	})
	const tables = "relname IN ('user_interactions', 'keyfold_event_ids')"
	must.OK(t, db.pool.QueryRow(fmt.Sprintf("SELECT (SELECT SUM(seq_tup_read) FROM pg_stat_user_tables WHERE %s), (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes WHERE %s)", tables, tables)).Scan(&whole, &entries))
	return whole, entries
}
