package outbox

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// A repeated row that occurred before the floor goes without the id that it shares with a
// later event: that stays known.
//
// Promise(outbox/pruned)
func TestPruneKeepsALaterEventsID(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		young := view(t, 1, 1)
		add(t, s, young)
		exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, message_id) VALUES (1, 'product_view', 2, '2026-02-10 14:30:00', ?)",
			young.Event.MessageID)
		running(t, NewRelay(db, &broker{}, brisk(), quiet))
		drained(t, db)
		if n, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM user_interactions WHERE duplicate = TRUE"); n != 1 || err != nil {
			t.Fatalf("%d rows are duplicates, %v", n, err)
		}
		if n, err := db.Prune(t.Context(), engine.MillisOf(time.Now().Add(-2*time.Hour)), CleanupOptions{}); n != 1 || err != nil {
			t.Fatalf("%d rows are pruned, %v", n, err)
		}
		if fresh := add(t, s, young); fresh[0] {
			t.Error("the later event is new again")
		}
	})
}

// waitingForLocks are queries of how many statements of this database wait for a lock.
var waitingForLocks = map[string]string{
	MariaDB: "SELECT COUNT(*) FROM information_schema.innodb_trx AS t JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id " +
		"WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()",
	PostgreSQL: "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
}

// A prune waits for a post that has passed the floor, and the post finds the ids of what is
// pruned behind it: the event is no new one. (A post on SQLite is alone from its start.)
//
// Promise(outbox/pruned)
func TestPruneWaitsForAPost(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		db := openAt(t, url)
		s := storeOn(t, db, StoreConfig{})
		event := view(t, 1, 1)
		add(t, s, event)
		exec(t, db, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = created_at")
		floor := engine.MillisOf(time.Now())
		conn, err := db.pool.Conn(t.Context())
		must.OK(t, err)
		flavour, err := db.dialect.variant(t.Context(), conn)
		must.OK(t, err)
		must.OK(t, conn.Close())
		pruned := make(chan error, 1)
		var gaveUp atomic.Bool // it has waited for a lock for as long as it may
		must.OK(t, db.transact(t.Context(), "post", func(tx *sql.Tx) error {
			row, err := rowOf(&event, engine.Now())
			must.OK(t, err)
			above, err := db.aboveFloor(t.Context(), tx, []*newRow{&row})
			must.OK(t, err)
			if len(above) != 1 {
				t.Fatalf("the post is refused: %v", row.fault)
			}
			go func() {
				_, err := db.Prune(context.Background(), floor, CleanupOptions{Pause: 1})
				for ; err != nil && db.dialect.classify(err) == classLocked; _, err = db.Prune(context.Background(), floor, CleanupOptions{Pause: 1}) {
					gaveUp.Store(true)
				}
				pruned <- err
			}()
			must.Hold(t, "the prune waits", func() bool {
				select {
				case err := <-pruned:
					t.Fatalf("the prune has ended beside the post: %v", err)
				default:
				}
				time.Sleep(150 * time.Millisecond) // MariaDB looks at transactions anew once it was not asked for 100 ms
				n, err := db.countOld(t.Context(), waitingForLocks[flavour])
				must.OK(t, err)
				return n > 0 || gaveUp.Load()
			})
			unknown, err := db.register(t.Context(), tx, above)
			if len(unknown) != 0 {
				t.Error("the event of a prune is new again")
			}
			return err
		}))
		must.OK(t, <-pruned)
	})
}
