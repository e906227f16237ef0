package outbox

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
)

// lockRow locks a row as a shop's transaction does, until the function it returns is called.
func lockRow(t testing.TB, db *Database, id int64) (unlock func()) {
	t.Helper()
	tx, err := db.pool.BeginTx(context.Background(), nil)
	must.OK(t, err)
	_, err = tx.Exec("UPDATE user_interactions SET metadata = '{}' WHERE id = ?", id)
	must.OK(t, err)
	unlock = sync.OnceFunc(func() { must.OK(t, tx.Commit()) })
	t.Cleanup(unlock)
	return unlock
}

// ofShards returns so many users, each of another shard.
func ofShards(n int) (users []int32) {
	seen := map[int]bool{}
	for user := int32(1); len(users) < n; user++ {
		if slot := engine.SlotOf(user); !seen[slot] {
			seen[slot] = true
			users = append(users, user)
		}
	}
	return users
}

// A transaction of the shop's holds one row. Its user waits; the other rows of the batch
// go on at once, be they of the API or of the shop.
//
// Promise(outbox/locked-row): A locked row delays its user only, with one line a minute; one locked
// between publish and mark is published again, as a copy.
func TestALockedRowHoldsUpItsUserOnly(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		for _, door := range []string{"api", "shop"} {
			db := openAt(t, url)
			users := ofShards(8)
			s := storeOn(t, db, StoreConfig{})
			store := func(user int32, n int) {
				if door == "api" {
					add(t, s, view(t, user, n))
				} else {
					shopInsert(t, db, user, "product_view", nil, n+1, recently(n), nil)
				}
			}
			for n := range 3 {
				for _, user := range users {
					store(user, n)
				}
			}
			first, err := collect(t.Context(), db.pool, column[int64], "SELECT MIN(id) FROM user_interactions WHERE processed_to_queue = FALSE")
			must.OK(t, err)
			unlock := lockRow(t, db, first[0])
			b, told := &broker{}, &logtest.Buffer{}
			config := brisk()
			config.Batches = 1
			r := NewRelay(db, b, config, slog.New(slog.NewTextHandler(told, nil)))
			stop := running(t, r)
			must.Hold(t, "the rows of seven users are sent", func() bool { return len(b.ids()) == 21 })
			store(users[1], 3)
			must.Hold(t, "a later row of another shard is sent", func() bool { return len(b.ids()) == 22 })
			if r.Fault() != nil || strings.Contains(told.String(), "nothing is published") {
				t.Errorf("%s: %v; the log says %s", door, r.Fault(), told)
			}
			if !strings.Contains(told.String(), "another transaction has locked") {
				t.Errorf("%s: the log does not tell of the lock: %s", door, told)
			}
			for _, row := range b.taken {
				if row.Event.UserID == users[0] {
					t.Errorf("%s: row %d went before the locked one of its user", door, row.ID)
				}
			}
			unlock()
			drained(t, db)
			stop()
			b.expectOrder(t)
			b.expectAll(t, 25)
			if len(b.ids()) != 25 {
				t.Errorf("%s: %d messages", door, len(b.ids()))
			}
		}
	})
}

// A row is locked while it is published. The others of its batch are marked, and are not
// published again; the row's copy says since when there is one.
//
// Promise(outbox/locked-row)
func TestARowThatIsLockedBeforeItsMark(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		db := openAt(t, url)
		users := ofShards(8)
		s := storeOn(t, db, StoreConfig{})
		for _, user := range users {
			add(t, s, view(t, user, 1))
		}
		locked := make(chan func(), 1)
		var once sync.Once
		b := &broker{before: func() { once.Do(func() { locked <- lockRow(t, db, 1) }) }}
		config := brisk()
		config.Batches = 1
		r := NewRelay(db, b, config, quiet)
		running(t, r)
		unlock := <-locked
		must.Hold(t, "the others are marked", func() bool { return backlog(t, db).Unsent == 1 })
		add(t, s, view(t, users[1], 2))
		must.Hold(t, "a later row is sent", func() bool { return backlog(t, db).Unsent == 1 && len(b.ids()) == 9 })
		if n := r.Stats.Unmarked.Load(); n != 1 || r.Fault() != nil {
			t.Errorf("%d rows were sent and not marked, %v; want the one that is locked", n, r.Fault())
		}
		unlock()
		drained(t, db)
		b.expectAll(t, 9)
		if ids := b.ids(); len(ids) != 10 || ids[9] != 1 || b.taken[9].TriedAt == 0 {
			t.Errorf("the rows were sent as %v, want a copy of row 1 at the end", ids)
		}
	})
}
