package outbox

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
)

// A transaction of another program's holds what the relay needs: the rows of its shards, their
// table, or the shop's. The relay says what is locked and is at fault until the lock goes; then
// it sends everything.
//
// Promise(outbox/locked-shards): A relay behind a lock sends the other shards; after 30 s (10 s for a
// table) log, `/readyz` and `keyfold_relay_fault` name the lock.
func TestARelayBehindALockSaysSo(t *testing.T) {
	for _, kind := range []string{"rows of keyfold_relay_shards", "table keyfold_relay_shards", "table user_interactions"} {
		t.Run(kind, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *Database) {
				s := storeOn(t, db, StoreConfig{})
				for user := range int32(9) {
					add(t, s, view(t, user+1, 1))
				}
				unlock := lockOf(t, db, kind)
				b, told := &broker{}, &logtest.Buffer{}
				r := NewRelay(db, b, brisk(), slog.New(slog.NewTextHandler(told, nil)))
				r.locked.bound, r.lockWait = 100*time.Millisecond, 500*time.Millisecond
				stop := running(t, r)
				locked := "another transaction has locked"
				must.Hold(t, "the relay is at fault", func() bool { return r.Fault() != nil && strings.Contains(r.Fault().Error(), locked) })
				must.Hold(t, "the log says so", func() bool { return strings.Contains(told.String(), locked) })
				if _, sqlite := db.dialect.(*sqliteDialect); !sqlite && !strings.Contains(r.Fault().Error(), strings.Fields(kind)[len(strings.Fields(kind))-1]) {
					t.Errorf("the fault does not name the table: %v", r.Fault())
				}
				if n := len(b.ids()); n != 0 {
					t.Errorf("%d rows were sent", n)
				}
				unlock()
				drained(t, db)
				must.Hold(t, "the fault is over", func() bool { return r.Fault() == nil })
				stop()
				b.expectAll(t, 9)
				if !strings.Contains(told.String(), "goes on") {
					t.Errorf("the log does not tell the end: %s", told)
				}
				t.Log(told)
			})
		})
	}
}

// A lock on some of the shards keeps their rows only, and the relay says so all the same.
//
// Promise(outbox/locked-shards)
func TestARelayBehindALockOfOneShard(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		db := openAt(t, url)
		s, users := storeOn(t, db, StoreConfig{}), ofShards(4)
		for _, user := range users {
			add(t, s, view(t, user, 1))
		}
		unlock := holdOpen(t, db, "SELECT shard FROM keyfold_relay_shards WHERE shard = (SELECT shard FROM user_interactions WHERE id = 1) FOR UPDATE")
		b := &broker{}
		r := NewRelay(db, b, brisk(), quiet)
		r.locked.bound = 100 * time.Millisecond
		running(t, r)
		must.Hold(t, "the other shards' rows are sent", func() bool { return len(b.ids()) == 3 })
		must.Hold(t, "the relay is at fault", func() bool { return r.Fault() != nil })
		for n := range 20 {
			add(t, s, view(t, users[1], n+2))
		}
		must.Hold(t, "rows of another shard are sent", func() bool { return len(b.ids()) == 23 })
		if r.Fault() == nil {
			t.Error("the fault is over while the lock lasts")
		}
		unlock()
		drained(t, db)
		must.Hold(t, "the fault is over", func() bool { return r.Fault() == nil })
	})
}

// Another relay that works has shards for a while, and is no lock.
//
// Promise(outbox/locked-shards)
func TestAShardOfAnotherRelayIsNoLock(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := lockedShards{bound: time.Minute}
	wanted := []int{1, 2, 3}
	heads := map[int]int64{1: 10, 2: 20, 3: 30}
	step := func(after time.Duration, leased []int) int {
		now = now.Add(after)
		l.seen(heads, now)
		stuck, _ := l.missed(wanted, leased, heads, now)
		return stuck
	}
	if n := step(0, nil); n != 0 {
		t.Errorf("%d at once", n)
	}
	heads[1] = 11 // the other relay has sent a row
	if n := step(time.Minute, []int{3}); n != 1 {
		t.Errorf("%d are locked, want shard 2", n)
	}
	release := l.hold([]int{2}) // another goroutine of this relay works on it
	if n := step(time.Hour, nil); n != 1 {
		t.Errorf("%d are locked, want shard 1", n)
	}
	release()
	delete(heads, 1) // all of it is sent
	if n := step(time.Second, nil); n != 0 || l.fault() != nil {
		t.Errorf("%d, %v", n, l.fault())
	}
}

// lockOf takes a lock as another program does.
func lockOf(t *testing.T, db *Database, kind string) (unlock func()) {
	t.Helper()
	table := kind[strings.LastIndex(kind, " ")+1:]
	switch db.dialect.(type) {
	case *sqliteDialect:
		return holdOpen(t, db, "UPDATE user_interactions SET id = id") // the file has one writer
	case postgresDialect:
		if strings.HasPrefix(kind, "table") {
			return holdOpen(t, db, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
		}
	case mysqlDialect:
		if strings.HasPrefix(kind, "table") {
			return holdOpen(t, db, "LOCK TABLES "+table+" WRITE", "UNLOCK TABLES")
		}
	}
	return holdOpen(t, db, "SELECT shard FROM keyfold_relay_shards FOR UPDATE")
}

// holdOpen keeps a transaction open that has run a statement, until the function it returns is
// called, which runs others before.
func holdOpen(t *testing.T, db *Database, statement string, last ...string) (unlock func()) {
	t.Helper()
	tx, err := db.pool.BeginTx(context.Background(), &sql.TxOptions{})
	must.OK(t, err)
	_, err = collect(context.Background(), tx, func(s scanner) (any, error) { return nil, nil }, statement)
	must.OK(t, err)
	unlock = sync.OnceFunc(func() {
		for _, statement := range last {
			_, err := tx.Exec(statement)
			must.OK(t, err)
		}
		must.OK(t, errors.Join(tx.Rollback()))
	})
	t.Cleanup(unlock)
	return unlock
}
