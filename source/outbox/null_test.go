package outbox

import (
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// insertNull inserts a row of a shop's whose processed_to_queue is NULL, which the
// specification's table allows.
func insertNull(t testing.TB, db *Database, user int32, product any, n int) {
	t.Helper()
	exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, processed_to_queue) VALUES (?, 'product_view', ?, ?, NULL)",
		user, product, recently(n*1000))
}

// A row without processed_to_queue was not sent: it is counted, and published in its
// user's order.
//
// Promise(outbox/unmarked): A row whose `processed_to_queue` is NULL was not sent: it is counted and
// published like any other.
func TestARowWithoutTheMarkIsUnsent(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		shopHistory(t, db, 4, 3)
		insertNull(t, db, 1, 5, 0)
		_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		must.OK(t, err)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		for n := range 30 {
			if n%3 == 2 {
				shopInsert(t, db, int32(n%2+1), "product_view", nil, n+10, recently(n*1000), nil)
			} else {
				insertNull(t, db, int32(n%2+1), n+10, n)
			}
		}
		insertNull(t, db, 1, nil, 100) // no event
		if got := backlog(t, db); got.Unsent != 33 || got.Oldest == 0 {
			t.Errorf("%+v waits, want 33 rows", got)
		}
		if n, err := db.Count(t.Context(), Filter{Sent: OnlyUnsent}); n != 33 || err != nil {
			t.Errorf("%d rows are unsent, %v", n, err)
		}
		exec(t, db, "UPDATE user_interactions SET created_at = '2020-01-01 00:00:00'")
		if n, err := db.Cleanup(t.Context(), engine.Now(), CleanupOptions{}); n != 0 || err != nil {
			t.Errorf("cleanup beside rows that wait: %d, %v", n, err)
		}
		b := &broker{}
		config := brisk()
		config.BatchRows = 16
		r := NewRelay(db, b, config, quiet)
		onlyQuick(r, 3)
		batches(t, r)
		b.expectOrder(t)
		b.expectAll(t, 32)
		if got := backlog(t, db); got.Unsent != 0 || got.Failed != 1 {
			t.Errorf("%+v waits, want one row that was set aside", got)
		}
		if rows := rowsOf(t, db, Filter{Sent: OnlySent}); len(rows) != 35 {
			t.Errorf("the history has %d rows, want 35", len(rows))
		}
	})
}

// A row of the history loses its mark: it counts as unsent again.
//
// Promise(outbox/unmarked)
func TestARowThatLosesItsMark(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		shopHistory(t, db, 6, 6)
		_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		must.OK(t, err)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		exec(t, db, "UPDATE user_interactions SET processed_to_queue = NULL WHERE id IN (2, 4)")
		unsent := 0
		for row, err := range db.History(t.Context(), Filter{}, Position{}) {
			must.OK(t, err)
			if !row.Sent {
				unsent++
			}
		}
		b := &broker{}
		n, err := NewRelay(db, b, brisk(), quiet).Drain(t.Context(), Filter{Sent: OnlyUnsent}, nil)
		if unsent != 2 || n != 2 || err != nil {
			t.Errorf("%d rows are unsent, %d are drained, %v; want 2", unsent, n, err)
		}
		b.expectAll(t, 2)
	})
}

// Setup makes the index that a table lacks which an earlier version took over, and one that
// is invalid.
//
// Promise(outbox/unmarked)
func TestSetupIndexesRowsWithoutTheMark(t *testing.T) {
	url := postgresURL(t)
	db := openOnly(t, url)
	exec(t, db, shopTables["postgres"])
	_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
	must.OK(t, err)
	for _, damage := range []string{"DROP INDEX idx_unsent_null", "UPDATE pg_index SET indisvalid = FALSE WHERE indexrelid = 'idx_unsent_null'::regclass"} {
		exec(t, db, damage)
		db.mayBeNull.Store(nil)
		if found, err := db.nullable(t.Context()); found || err != nil {
			t.Errorf("%s: the index is found, %v", damage, err)
		}
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		if found, err := db.nullable(t.Context()); !found || err != nil {
			t.Errorf("%s: setup made no index, %v", damage, err)
		}
	}
	ours := openAt(t, postgresURL(t))
	if found, err := ours.nullable(t.Context()); found || err != nil {
		t.Errorf("a table of keyfold's own has the index, %v", err)
	}
}
