package outbox

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// insertSetAside inserts rows that were set aside.
func insertSetAside(t *testing.T, db *Database, rows int) {
	t.Helper()
	must.OK(t, db.transact(t.Context(), "fill", func(tx *sql.Tx) error {
		for first := 0; first < rows; first += 5000 {
			n := min(5000, rows-first)
			values := "(1, 'product_view', '2026-02-10 14:30:00', '2026-02-10 14:31:00.000', 7)"
			if _, err := tx.Exec("INSERT INTO user_interactions (user_id, event_type, occurred_at, failed_at, attempts) VALUES " +
				strings.Repeat(values+", ", n-1) + values); err != nil {
				return err
			}
		}
		return nil
	}))
}

func failedOf(t *testing.T, db *Database) []FailedRow {
	t.Helper()
	ids, err := db.FailedIDs(t.Context())
	must.OK(t, err)
	rows, err := db.Failed(t.Context(), ids...)
	must.OK(t, err)
	return rows
}

// A type that PostgreSQL checks takes no text of keyfold's.
//
// Promise(outbox/failed-rows)
func TestFailedRowsOfAnEnumeratedType(t *testing.T) {
	db := shopDatabase(t, "postgres")
	exec(t, db, "CREATE TYPE kind AS ENUM ('search', 'product_view', 'outbox_wish', 'outbox_return', 'outbox_question')")
	exec(t, db, strings.Replace(shopTables["postgres"], "event_type VARCHAR(20)", "event_type kind", 1))
	_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
	must.OK(t, err)
	insertSetAside(t, db, 2)
	exec(t, db, "UPDATE user_interactions SET event_type = NULL WHERE id = 1")
	if rows := failedOf(t, db); len(rows) != 2 || rows[0].EventType != "" || rows[1].EventType != "product_view" {
		t.Errorf("listed are %+v", rows)
	}
}

// Rows with columns that no event has, as a shop's own table may hold them, are listed
// among the others, and are given back and removed with them.
//
// Promise(outbox/failed-rows): `failed` lists, counts, retries and removes rows set aside of any
// columns and number, with the reason of their dead letter.
func TestFailedRowsOfAnyColumns(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		must.OK(t, err)
		insertSetAside(t, db, 3)
		exec(t, db, "UPDATE user_interactions SET event_type = NULL WHERE id = 1")
		conn, err := db.pool.Conn(t.Context())
		must.OK(t, err)
		defer conn.Close()
		odd := map[string]string{MariaDB: "0000-00-00 00:00:00", PostgreSQL: "infinity", SQLite: "tomorrow"}
		flavour, err := db.dialect.variant(t.Context(), conn)
		must.OK(t, err)
		if flavour == MariaDB {
			_, err := conn.ExecContext(t.Context(), "SET SESSION sql_mode = ''")
			must.OK(t, err)
		}
		_, err = conn.ExecContext(t.Context(), "UPDATE user_interactions SET created_at = ?, failed_at = ? WHERE id = 2", odd[flavour], odd[flavour])
		must.OK(t, err)
		rows := failedOf(t, db)
		if len(rows) != 3 || rows[0].EventType != "" || rows[1].StoredAt != 0 || rows[1].FailedAt != 0 || rows[2].FailedAt == 0 {
			t.Fatalf("listed are %+v", rows)
		}
		if n, err := db.RetryFailed(t.Context(), 1); n != 1 || err != nil {
			t.Errorf("%d rows are given back, %v", n, err)
		}
		if n, err := db.RemoveFailed(t.Context(), 2, 3); n != 2 || err != nil {
			t.Errorf("%d rows are removed, %v", n, err)
		}
	})
}

// No number of rows is too many for a database's statement, and a row that is given back
// has all of its attempts again.
//
// Promise(outbox/failed-rows)
func TestManyFailedRows(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		const many = 300
		insertSetAside(t, db, many)
		found, err := collect(t.Context(), db.pool, column[int64], "SELECT id FROM user_interactions")
		must.OK(t, err)
		var ids []int64
		for n := range int64(70_000) { // most of them of no row
			if ids = append(ids, 1_000_000+n); n%200 == 0 && len(found) > 0 {
				ids, found = append(ids, found[0]), found[1:]
			}
		}
		if len(found) > 0 {
			t.Fatalf("%d rows are not named", len(found))
		}
		if n, err := db.RetryFailed(t.Context(), ids...); n != many || err != nil {
			t.Fatalf("%d rows are given back, %v", n, err)
		}
		if n, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM user_interactions WHERE attempts = 0 AND failed_at IS NULL"); n != many || err != nil {
			t.Errorf("%d rows have all of their attempts again, %v", n, err)
		}
		exec(t, db, "UPDATE user_interactions SET failed_at = '2026-02-10 14:31:00.000'")
		if n, err := db.RemoveFailed(t.Context(), ids...); n != many || err != nil {
			t.Errorf("%d rows are removed, %v", n, err)
		}
		exec(t, db, "DELETE FROM user_interactions")
		insertSetAside(t, db, 3)
		if n, err := db.RetryFailed(t.Context()); n != 3 || err != nil {
			t.Errorf("%d of all rows are given back, %v", n, err)
		}
	})
}

// However many rows were set aside, each is read twice at most: by its index entry, and by
// its id.
//
// Promise(outbox/failed-rows)
func TestFailedRowsAreReadOnce(t *testing.T) {
	db := shopDatabase(t, "mariadb")
	must.OK(t, db.Setup(t.Context(), SetupOptions{}))
	const rows = 5 * statementRows
	insertSetAside(t, db, rows)
	db.pool.SetMaxOpenConns(1) // the server counts by connection
	reads := func() (sum int64) {
		counts, err := collect(t.Context(), db.pool, func(s scanner) (n int64, err error) {
			var name string
			err = s.Scan(&name, &n)
			return n, err
		}, "SHOW SESSION STATUS LIKE 'Handler_read%'")
		must.OK(t, err)
		for _, n := range counts {
			sum += n
		}
		return sum
	}
	before := reads()
	if found := failedOf(t, db); len(found) != rows {
		t.Errorf("%d rows are listed", len(found))
	}
	if n := reads() - before; n > 5*rows/2 {
		t.Errorf("%d reads for %d rows", n, rows)
	}
}

// A row says why it was set aside: the reason that its dead letter would have.
//
// Promise(outbox/failed-rows)
func TestFailedRowsKeepTheirReason(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		_, err := db.Prune(t.Context(), engine.MillisOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), CleanupOptions{})
		must.OK(t, err)
		shopInsert(t, db, 1, "product_view", nil, 5, "2025-12-31 14:30:00", nil)
		shopInsert(t, db, 2, "search", nil, nil, "2026-02-10 14:30:00", nil)
		s := storeOn(t, db, StoreConfig{})
		add(t, s, view(t, 3, 1), view(t, 4, 1), view(t, 5, 1), view(t, 6, 1))
		answers := map[int32]error{
			3: fmt.Errorf("rabbit: %w", engine.ErrUnroutable), 4: fmt.Errorf("rabbit: %w", engine.ErrRefused),
			5: engine.PermanentError("too_large", errors.New("rabbit: the message is too large")),
		}
		config := brisk()
		config.MaxAttempts = 1
		b := &broker{answer: func(row Row) error { return answers[row.Event.UserID] }}
		running(t, NewRelay(db, b, config, quiet))
		want := map[int64]string{1: "before_history", 2: "search_without_phrase", 3: "unroutable", 4: "refused", 5: "too_large"}
		must.Hold(t, "all but one are set aside", func() bool {
			add(t, s, view(t, 6, int(engine.Now()%1_000_000))) // attempts count where others are taken
			return len(failedOf(t, db)) == len(want)
		})
		for _, row := range failedOf(t, db) {
			if row.Reason != want[row.UserID] || row.Error == "" || strings.HasPrefix(row.Error, "[") {
				t.Errorf("user %d: the reason is %q and the error %q, want %q", row.UserID, row.Reason, row.Error, want[row.UserID])
			}
		}
	})
}
