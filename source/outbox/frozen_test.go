package outbox

import (
	"context"
	"errors"
	"sync"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// A relay that stood still between its look at the rows and their publication for so long
// that another may have them publishes none: they would go without the time since when
// there may be a copy of theirs.
//
// Promise(outbox/later-copy)
func TestAFrozenRelayPublishesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		add(t, storeOn(t, db, StoreConfig{}), view(t, 1, 1), view(t, 1, 2))
		late := &broker{}
		frozen := NewRelay(db, late, brisk(), quiet)
		frozen.leaseLasts = -1
		if _, err := frozen.publishShards(t.Context(), t.Context(), []int{engine.SlotOf(1)}, query{}); !errors.Is(err, errFrozen) {
			t.Errorf("the batch ended with %v", err)
		}
		if late.calls != 0 {
			t.Errorf("%d calls were published", late.calls)
		}
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectAll(t, 2)
		if tried := b.taken[0].TriedAt; tried != 0 {
			t.Errorf("the first copy says that there was one at %d", tried)
		}
	})
}

// A relay that has lost its lease, and could not publish, takes nothing back of what the
// next one has noted: that one ended between a publish and its mark.
//
// Promise(outbox/later-copy)
func TestALostLeaseTakesNothingBack(t *testing.T) {
	for _, name := range []string{"mariadb", "postgres"} { // SQLite's lease has no connection
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := shopDatabase(t, name)
			must.OK(t, db.Setup(t.Context(), SetupOptions{}))
			add(t, storeOn(t, db, StoreConfig{}), view(t, 1, 1))
			shards := []int{engine.SlotOf(1)}
			var once sync.Once
			lost := &broker{answer: func(Row) error { return engine.ErrAway }, before: func() {
				once.Do(func() {
					loseConnections(t, db)
					work, crash := context.WithCancel(t.Context())
					dying := &broker{before: crash}
					next := NewRelay(db, dying, brisk(), quiet)
					for len(dying.taken) == 0 { // once the server has noticed that the lease is over
						if _, err := next.publishShards(t.Context(), work, shards, query{}); err == nil && len(dying.taken) > 0 {
							t.Error("the next relay marked what it published")
						}
					}
				})
			}}
			if _, err := NewRelay(db, lost, brisk(), quiet).publishShards(t.Context(), t.Context(), shards, query{}); err == nil {
				t.Error("the relay without a broker says that all is well")
			}
			b := &broker{}
			running(t, NewRelay(db, b, brisk(), quiet))
			drained(t, db)
			b.expectAll(t, 1)
			if b.taken[0].TriedAt == 0 {
				t.Error("the copy does not say that there may be an earlier one")
			}
		})
	}
}

// loseConnections ends all connections to the database but one.
func loseConnections(t *testing.T, db *Database) {
	t.Helper()
	conn, err := db.pool.Conn(t.Context())
	must.OK(t, err)
	defer conn.Close()
	others, end := "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()", "SELECT pg_terminate_backend(?)"
	if _, ok := db.dialect.(mysqlDialect); ok {
		others, end = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()", "KILL ?"
	}
	ids, err := collect(t.Context(), conn, column[int64], others)
	must.OK(t, err)
	for _, id := range ids {
		_, _ = conn.ExecContext(t.Context(), end, id) // it may have ended
	}
}
