package outbox

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// shardMates returns so many users of the shard of user 1, without that one.
func shardMates(n int) (users []int32) {
	for user := int32(2); len(users) < n; user++ {
		if engine.SlotOf(user) == engine.SlotOf(1) {
			users = append(users, user)
		}
	}
	return users
}

// onlyQuick has a relay look quickly from now on, behind an id.
func onlyQuick(r *Relay, floor int64) {
	r.looks.slow, r.looks.floor, r.looks.took, r.looks.fullAt = -1, floor, time.Hour, time.Now()
}

// batches publishes batch after batch until nothing is left to do.
func batches(t testing.TB, r *Relay) {
	t.Helper()
	for {
		n, err := r.batch(t.Context(), t.Context())
		must.OK(t, err)
		if n == 0 {
			return
		}
	}
}

// A transaction is open for longer than quick looks reckon with, while later rows of its
// user are stored and sent. Once it is committed, none of the user's rows goes before
// its row.
//
// Promise(outbox/order)
func TestQuickLooksKeepTheOrderOfALongTransaction(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		db := openAt(t, url)
		long := view(t, 1, 1)
		row, err := rowOf(&long, engine.Now())
		must.OK(t, err)
		tx, err := db.pool.Begin()
		must.OK(t, err)
		must.OK(t, db.insert(t.Context(), tx, []*newRow{&row}))
		s := storeOn(t, db, StoreConfig{})
		for n := range 20 {
			add(t, s, view(t, int32(n%3+1), n+2))
		}
		b := &broker{}
		r := NewRelay(db, b, brisk(), quiet)
		onlyQuick(r, 1)
		batches(t, r)
		onlyQuick(r, 21) // the transaction is now older than quick looks reckon with
		add(t, s, view(t, 1, 30))
		must.OK(t, tx.Commit())
		batches(t, r)
		ids := b.ids()
		if len(ids) != 22 || ids[20] != 1 {
			t.Errorf("the rows were sent as %v, want the one of the transaction before that which came after its commit", ids)
		}
	})
}

// betweenPages is a dialect whose leases call something before a query of theirs.
type betweenPages struct {
	dialect
	query int // which one
	do    func()
}

func (b *betweenPages) lease(ctx context.Context, pool *sql.DB, wanted []int) (*lease, error) {
	l, err := b.dialect.lease(ctx, pool, wanted)
	if err == nil {
		l.run = &countingRunner{runner: l.run, between: b}
	}
	return l, err
}

type countingRunner struct {
	runner
	between *betweenPages
	n       int
}

func (c *countingRunner) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if c.n++; c.n == c.between.query && c.between.do != nil {
		c.between.do()
		c.between.do = nil
	}
	return c.runner.QueryContext(ctx, query, args...)
}

// A fetch reads several pages, to pass over a busy user. An earlier row of another user
// comes to light between two of them: the user's later rows wait for it. No page brings
// a row again.
//
// Promise(outbox/order)
func TestACommitBetweenTwoPages(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		mates := shardMates(3)
		late, mate, other := mates[0], mates[1], mates[2]
		entries := []profile.Entry{view(t, late, 1), view(t, mate, 2), view(t, mate, 3)}
		for n := range 40 {
			entries = append(entries, view(t, 1, n+4))
		}
		add(t, s, append(entries, view(t, late, 50), view(t, other, 51), view(t, late, 52))...)
		// A row that is set aside is not seen, as one of a transaction that is open.
		exec(t, db, "UPDATE user_interactions SET failed_at = created_at WHERE id = 1")
		db.dialect = &betweenPages{dialect: db.dialect, query: 2, do: func() {
			exec(t, db, "UPDATE user_interactions SET failed_at = NULL WHERE id = 1")
		}}
		b := &broker{}
		config := brisk()
		config.BatchRows = 16
		r := NewRelay(db, b, config, quiet)
		_, err := r.batch(t.Context(), t.Context())
		must.OK(t, err)
		first := b.ids()
		if db.dialect.(*betweenPages).do != nil || !slices.Contains(first, 45) {
			t.Fatalf("the first batch sent %v: it had no second page, and this test shows nothing", first)
		}
		batches(t, r)
		b.expectOrder(t)
		b.expectAll(t, len(entries)+3)
		if ids := b.ids(); len(ids) != len(entries)+3 {
			t.Errorf("%d copies of %d rows were sent: %v", len(ids), len(entries)+3, ids)
		}
	})
}

// An earlier row comes to light behind all rows that a batch of a backfill has read: the
// backfill goes on with it.
//
// Promise(outbox/order)
func TestADrainGoesOnBehindALateRow(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		var entries []profile.Entry
		for n := range 11 {
			entries = append(entries, view(t, 1, n))
		}
		add(t, storeOn(t, db, StoreConfig{}), entries...)
		exec(t, db, "UPDATE user_interactions SET failed_at = created_at WHERE id = 1")
		db.dialect = &betweenPages{dialect: db.dialect, query: 2, do: func() {
			exec(t, db, "UPDATE user_interactions SET failed_at = NULL WHERE id = 1")
		}}
		b := &broker{}
		config := brisk()
		config.BatchRows = 8
		n, err := NewRelay(db, b, config, quiet).Drain(t.Context(), Filter{}, nil)
		if err != nil || n != 11 || !slices.IsSorted(b.ids()) {
			t.Errorf("%d rows were sent, %v, as %v", n, err, b.ids())
		}
	})
}
