package outbox

import (
	"fmt"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// noTimes are values of occurred_at that a shop's table takes and that are no time.
var noTimes = map[string][]string{
	"mariadb":  {"0000-00-00 00:00:00", "2026-02-30 10:00:00", "2026-00-10 10:00:00"},
	"sqlite":   {"tomorrow", "2026-02-30 10:00:00", "", "10000-01-01 00:00:00"},
	"postgres": {"infinity", "-infinity"},
}

// insertNoTime inserts rows of a shop's at a time that is none, with ids of their own. Those
// of user 2 were stored at such a time too.
func insertNoTime(t testing.TB, db *Database, user, rows int, times ...string) {
	t.Helper()
	conn, err := db.pool.Conn(t.Context())
	must.OK(t, err)
	defer conn.Close()
	if _, ok := db.dialect.(mysqlDialect); ok { // the shop's sessions are not strict
		_, err := conn.ExecContext(t.Context(), "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
		must.OK(t, err)
		defer func() {
			_, err := conn.ExecContext(t.Context(), "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE'")
			must.OK(t, err)
		}()
	}
	for _, at := range times {
		var values []string
		created := "2026-02-10 10:00:00"
		if user == 2 {
			created = at
		}
		for n := range rows {
			values = append(values, fmt.Sprintf("(%d, 'product_view', %d, '%s', '%s', 'u%d %s %d')", user, n+1, at, created, user, at, n))
		}
		_, err := conn.ExecContext(t.Context(), "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, created_at, message_id) VALUES "+strings.Join(values, ", "))
		must.OK(t, err)
	}
}

// A row whose time is none is a fault of its own: it is set aside, and neither the history,
// nor what counts it, ends at it, be it one or more than a page of them.
//
// Promise(outbox/bad-time): A row with a time that is none is set aside; a history, a rebuild and
// the counts of both go on behind it.
func TestARowOfNoTimeIsItsOwnFault(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		times := noTimes[t.Name()[strings.LastIndex(t.Name(), "/")+1:]]
		shopHistory(t, db, 40, 20)
		_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		must.OK(t, err)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		insertNoTime(t, db, 1, page+50, times[0])
		insertNoTime(t, db, 1, 1, times[1:]...)
		insertNoTime(t, db, 2, 1, times...)
		if _, ok := db.dialect.(*sqliteDialect); ok { // some versions of SQLite make a March of it
			exec(t, db, "UPDATE user_interactions SET occurred_at = '2026-02-30 10:00:00' WHERE occurred_at LIKE '2026-03-02%'")
		}
		for n := range 3 {
			shopInsert(t, db, int32(n+1), "product_view", nil, 99, recently(n), nil)
		}
		if _, err := db.Backlog(t.Context(), 0); err != nil {
			t.Errorf("backlog: %v", err)
		}
		b := &broker{}
		batches(t, NewRelay(db, b, RelayConfig{}, quiet))
		b.expectAll(t, 23)
		bad := page + 49 + 2*len(times)
		if got := backlog(t, db); got.Unsent != 0 || int(got.Failed) != bad {
			t.Errorf("%+v waits, want %d rows that are set aside", got, bad)
		}
		good, faults := map[int64]int{}, map[int64]int{}
		for row, err := range db.History(t.Context(), Filter{}, Position{}) {
			switch {
			case err == nil:
				good[row.ID]++
			case engine.KindOf(err) == engine.Permanent && (row.Event.UserID == 1 || row.Event.UserID == 2):
				faults[row.ID]++
			default:
				t.Fatal(err)
			}
		}
		if len(good) != 43 || len(faults) != bad {
			t.Errorf("the history has %d events and %d faults, want 43 and %d", len(good), len(faults), bad)
		}
		for id, n := range faults {
			if n != 1 {
				t.Fatalf("row %d comes %d times", id, n)
			}
		}
		h, err := db.HistoryStats(t.Context())
		now := engine.Now()
		if must.OK(t, err); h.Oldest == 0 || now-h.Oldest > 25*3600_000 || h.Newest < now-2*3600_000 || h.Newest > now {
			t.Errorf("the history reaches from %v to %v", h.Oldest.Time(), h.Newest.Time())
		}
	})
}
