package outbox

import (
	"errors"
	"strconv"
	"testing"

	"github.com/pressly/goose/v3"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sqltest"
)

// counted is a server that tells what it has read of its tables.
type counted struct {
	url     string
	history string // the statement that fills the table: users, rows
	ids     string // and the ids
	read    func(*testing.T, *Database) (whole, entries int64)
	analyze func(*testing.T, *Database) *Database
}

// fillBySQL has a server make so many unsent rows of so many users.
func fillBySQL(t *testing.T, db *Database, users, rows int) {
	t.Helper()
	series := map[goose.Dialect]string{
		goose.DialectMySQL:    "SELECT seq AS n FROM seq_1_to_1000000 WHERE seq <= ?",
		goose.DialectPostgres: "SELECT * FROM generate_series(1, ?::int) AS all_rows (n)",
	}[db.words.migrations]
	exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, message_id, registered)"+
		" SELECT n % "+strconv.Itoa(users)+" + 1, 'product_view', n, '2026-02-10 14:30:00', CONCAT('m', n), TRUE FROM ("+series+") AS numbers", rows)
}

// Promise(outbox/long-history): With a long history in PostgreSQL relay, cleanup, prune, one user's
// history and erasure read no table whole.
// Figure: 1,000,000 rows of history: a look reads 1 index entry, 200 rows are published with some
// 1,300 (`KEYFOLD_SOAK=1`)
func TestPostgresReadsNoWholeTable(t *testing.T) {
	url := postgresURL(t)
	readsNoWholeTable(t, counted{
		url: url, read: tuplesRead, analyze: func(t *testing.T, db *Database) *Database { return analyzed(t, db, url) },
		history: "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, created_at, message_id, headers, processed_to_queue, sent_at, tried_at, registered)" +
			" SELECT n % ?::int + 1, 'product_view', n, at, at, 'm' || n, '{}'::json, TRUE, at, at, TRUE FROM (SELECT n, TIMESTAMP '2026-01-01' + n * INTERVAL '1 second' AS at FROM generate_series(1, ?::int) AS n) AS all_rows",
		ids: "INSERT INTO keyfold_event_ids SELECT user_id, decode(md5(message_id), 'hex') FROM user_interactions",
	})
}

// The counters are of the whole server, which no other test uses meanwhile.
func TestMariaDBReadsNoWholeTable(t *testing.T) {
	server := sqltest.Shared(t)
	readsNoWholeTable(t, counted{
		url: server.URL(server.Database(t)), read: rowsRead,
		analyze: func(t *testing.T, db *Database) *Database {
			exec(t, db, "ANALYZE TABLE user_interactions, keyfold_event_ids")
			return db
		},
		history: "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, created_at, message_id, headers, processed_to_queue, sent_at, tried_at, registered)" +
			" SELECT seq % ? + 1, 'product_view', seq, at, at, CONCAT('m', seq), '{}', TRUE, at, at, TRUE FROM (SELECT seq, TIMESTAMP '2026-01-01 00:00:00' + INTERVAL seq SECOND AS at FROM seq_1_to_1000000 WHERE seq <= ?) AS all_rows",
		ids: "INSERT INTO keyfold_event_ids SELECT user_id, UNHEX(MD5(message_id)) FROM user_interactions",
	})
}

// rowsRead returns how many rows the server has read by going through a table, and how
// many entries by an index.
func rowsRead(t *testing.T, db *Database) (whole, entries int64) {
	t.Helper()
	must.OK(t, each(t.Context(), db.pool, func(s scanner) error {
		var name string
		var n int64
		err := s.Scan(&name, &n)
		if name == "Handler_read_rnd_next" {
			whole = n
		} else {
			entries += n
		}
		return err
	}, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_read_rnd_next', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_key')"))
	return whole, entries
}

// readsNoWholeTable counts what the server read of the tables, with a long history in
// them: nothing that runs all the time, or on one user, reads them whole.
func readsNoWholeTable(t *testing.T, server counted) {
	t.Helper()
	const users = 2000
	history := volume(20_000, 1_000_000)
	// MariaDB counts the rows of small and of temporary tables too.
	const wholeRows = 3000
	most := int64(5000 + history/users*20) // the rows of 20 users
	admin := openAt(t, server.url)
	exec(t, admin, server.history, users, history)
	exec(t, admin, server.ids)
	admin = server.analyze(t, admin)
	ctx := t.Context()
	middle := engine.Millis(1767225600000) // 2026-01-01
	relay := func(db *Database) error {
		r := NewRelay(db, &broker{}, RelayConfig{}, quiet)
		for {
			if n, err := r.batch(ctx, ctx); n == 0 || err != nil {
				return err
			}
		}
	}
	for _, one := range []struct {
		name string
		do   func(db *Database) error
	}{
		{"the relay, with nothing to send", relay},
		{"add and add again", func(db *Database) error {
			s := storeOn(t, db, StoreConfig{})
			var entries []profile.Entry
			for n := range 200 {
				entries = append(entries, view(t, int32(n%50+1), n))
			}
			add(t, s, entries...)
			add(t, s, append(entries, view(t, 3, 201))...)
			return s.Close(ctx)
		}},
		{"backlog", func(db *Database) error { _, err := db.Backlog(ctx, 0); return err }},
		{"the relay, with 201 rows", relay},
		{"a shop's rows", func(db *Database) error {
			for n := range 20 {
				shopInsert(t, db, 7, "product_view", nil, n+1, "2026-02-10 14:30:00", nil)
			}
			return relay(db)
		}},
		{"failed rows", func(db *Database) error {
			exec(t, db, "UPDATE user_interactions SET processed_to_queue = FALSE, failed_at = sent_at WHERE id IN (5, 6, 7)")
			ids, err := db.FailedIDs(ctx)
			must.OK(t, err)
			rows, err := db.Failed(ctx, ids...)
			if len(rows) != 3 {
				t.Errorf("%d failed rows", len(rows))
			}
			_, again := db.RetryFailed(ctx)
			return errors.Join(err, again)
		}},
		{"cleanup of 500 rows", func(db *Database) error {
			n, err := db.Cleanup(ctx, middle+501_000, CleanupOptions{Chunk: 100, Pause: 1})
			if n < 490 {
				t.Errorf("%d rows were cleaned up", n)
			}
			return err
		}},
		{"a user's history", func(db *Database) error { rowsOf(t, db, Filter{UserID: 9}); return nil }},
		{"users", func(db *Database) error { _, err := db.Users(ctx, users-20); return err }},
		{"prune of 500 rows", func(db *Database) error {
			n, err := db.Prune(ctx, middle+501_000, CleanupOptions{Chunk: 100, Pause: 1})
			if n < 490 {
				t.Errorf("%d rows were pruned", n)
			}
			return err
		}},
		{"erasure of a user", func(db *Database) error {
			_, err := db.Forget(ctx, 11, func([]byte) int32 { return 0 }, false)
			return err
		}},
	} {
		whole, read := server.read(t, admin)
		db := openOnly(t, server.url)
		must.OK(t, one.do(db))
		must.OK(t, db.Close())
		wholeAfter, readAfter := server.read(t, admin)
		if wholeAfter-whole > wholeRows || readAfter-read > most {
			t.Errorf("%s: %d rows by whole tables, %d by indexes", one.name, wholeAfter-whole, readAfter-read)
		}
		t.Logf("%s: %d index entries", one.name, readAfter-read)
	}
}
