package outbox

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// A transaction of the shop's that has read the table stays open. The setup that waits
// for it lets the shop's INSERTs pass, says what it waits for, gives up after its tries,
// goes on where it is run again, and ends once the transaction has.
//
// Promise(outbox/adopt-beside): While a shop's table is taken over its INSERTs pass: a change gives up
// a lock after a second; a second run goes on from there.
func TestAdoptBesideAnOpenTransaction(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		shopHistory(t, db, 10, 5)
		writes := strings.HasSuffix(t.Name(), "/sqlite") // where a reader is in no one's way
		release := openTransaction(t, db, writes)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var waits []string
		patience := Patience{Tries: 2, Pause: time.Millisecond, Waiting: func(err error) { waits = append(waits, err.Error()) }}
		_, err := db.Adopt(ctx, adoptInPlace, AdoptOptions{Patience: patience})
		if err == nil || !strings.Contains(err.Error(), "each of 2 tries") {
			t.Errorf("an adoption that waits in vain: %v", err)
		}
		if len(waits) != 1 || !strings.Contains(waits[0], "transaction") && !writes {
			t.Errorf("it waits for %q", waits)
		}
		expectPatience(t, db, release, writes, func(patience Patience) error {
			done, err := db.Adopt(ctx, adoptInPlace, AdoptOptions{Patience: patience})
			if err == nil && done.After < done.Before {
				t.Errorf("adopted %+v", done)
			}
			return err
		})
		expectPatience(t, db, openTransaction(t, db, writes), writes, func(patience Patience) error {
			return db.Setup(ctx, SetupOptions{Patience: patience})
		})
		must.OK(t, db.Check(t.Context()))
		b := &broker{}
		running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		b.expectOrder(t)
	})
}

// expectPatience runs what waits for a transaction, inserts meanwhile, and lets the
// transaction end then.
func expectPatience(t *testing.T, db *Database, release func(), writes bool, do func(Patience) error) {
	t.Helper()
	waiting, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- do(Patience{Waiting: func(error) { once.Do(func() { close(waiting) }) }})
	}()
	select {
	case <-waiting:
	case err := <-ended:
		t.Fatalf("it ended beside the transaction: %v", err)
	}
	if !writes {
		for range 5 {
			exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at) VALUES (1, 'product_view', 1, '2026-02-10 14:30:00')")
		}
	}
	release()
	must.OK(t, <-ended)
}

// openTransaction reads the table, or changes it, in a transaction that stays open until
// release is called.
func openTransaction(t *testing.T, db *Database, writes bool) (release func()) {
	t.Helper()
	conn, err := db.pool.Conn(context.Background())
	must.OK(t, err)
	tx, err := conn.BeginTx(context.Background(), nil)
	must.OK(t, err)
	if writes {
		_, err = tx.Exec("UPDATE user_interactions SET event_type = event_type")
	} else {
		var n sql.NullInt64
		err = tx.QueryRow("SELECT MAX(product_id) FROM user_interactions").Scan(&n)
	}
	must.OK(t, err)
	release = sync.OnceFunc(func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		conn.Close()
	})
	t.Cleanup(release)
	return release
}
