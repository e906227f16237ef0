package outbox

import (
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sqltest"
)

// While an older transaction of the server is open, the entries of sent rows stay
// in the index. A quick look does not read them.
//
// Promise(outbox/open-transaction): An old open transaction of the server slows no relay: quick looks
// by primary key take the place of looks over the index.
// Figure: behind 100,000 sent rows: 178 ms a full look, 2 to 4 ms a quick one
func TestALookBehindManySentRows(t *testing.T) {
	server := sqltest.Shared(t)
	db := openAt(t, server.URL(server.Database(t)))
	fillBySQL(t, db, 500, 20_000)
	snapshot, err := db.pool.BeginTx(t.Context(), nil)
	must.OK(t, err)
	defer func() { must.OK(t, snapshot.Rollback()) }()
	var n int
	must.OK(t, snapshot.QueryRow("SELECT COUNT(*) FROM user_interactions").Scan(&n)) // from now on it sees what was
	_, err = db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE")
	must.OK(t, err)
	fill(t, db, 500, 100)

	r := NewRelay(db, &broker{}, brisk(), quiet)
	full, fullCost := looked(t, db, r)
	onlyQuick(r, 20_000)
	// The least of some, of both: the server counts its own work too, and that of the tests
	// beside this one.
	shards, cost := looked(t, db, r)
	for tries := 0; tries < 20 || cost*10 > fullCost && tries < 500; tries++ {
		_, again := looked(t, db, r)
		cost = min(cost, again)
		_, again = looked(t, db, NewRelay(db, &broker{}, brisk(), quiet))
		fullCost = min(fullCost, again)
	}
	if !slices.Equal(shards, full) {
		t.Errorf("a quick look found %v, a full one %v", shards, full)
	}
	if cost*10 > fullCost {
		t.Errorf("a quick look read %d pages, a full one %d", cost, fullCost)
	}
}

// quickly has a relay look quickly, whenever it may, behind an id.
func quickly(r *Relay, floor int64) {
	r.looks.slow = -1
	r.looks.last.id = floor
	r.looks.newer.at = time.Now().Add(time.Hour) // no other floor takes its place
}

// looked looks once and counts the pages of which the server read something.
func looked(t *testing.T, db *Database, r *Relay) (shards []int, pages int64) {
	t.Helper()
	before := pagesRead(t, db)
	heads, err := r.look(t.Context())
	must.OK(t, err)
	return slices.Sorted(maps.Keys(heads)), pagesRead(t, db) - before
}

func pagesRead(t *testing.T, db *Database) (n int64) {
	t.Helper()
	var name string
	must.OK(t, db.pool.QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'").Scan(&name, &n))
	return n
}

// With quick looks in between, a relay sends everything, each user's rows in their
// order, also behind a row that the broker refuses for a while.
//
// Promise(outbox/open-transaction)
func TestQuickLooksSendEverythingInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		const batch = 64
		fill(t, db, 40, batch)
		var refusals atomic.Int64
		b := &broker{answer: func(row Row) error {
			if row.ID%20 == 0 && refusals.Add(1)%3 != 0 {
				return engine.ErrUnroutable
			}
			return nil
		}}
		config := brisk()
		config.BatchRows = batch
		r := NewRelay(db, b, config, quiet)
		quickly(r, batch)
		running(t, r)
		drained(t, db)
		for range volume(2, 5) {
			fill(t, db, 40, 2*batch) // more than one batch brings
			drained(t, db)
		}
		b.expectOrderAmongCopies(t)
		b.expectAll(t, len(rowsOf(t, db, Filter{})))
	})
}

// What is committed behind the floor of the quick looks is found by a full one.
//
// Promise(outbox/open-transaction)
func TestAFullLookFindsWhatQuickOnesPassOver(t *testing.T) {
	server := sqltest.Shared(t)
	db := openAt(t, server.URL(server.Database(t)))
	late := view(t, 9, 1)
	row, err := rowOf(&late, engine.Now())
	must.OK(t, err)
	tx, err := db.pool.Begin()
	must.OK(t, err)
	must.OK(t, db.insert(t.Context(), tx, []*newRow{&row}))
	fill(t, db, 5, 20)
	b := &broker{}
	r := NewRelay(db, b, brisk(), quiet)
	quickly(r, 21)
	running(t, r)
	drained(t, db)
	must.OK(t, tx.Commit())
	must.Hold(t, "the row behind the floor is sent", func() bool { return len(b.ids()) == 21 })
}

// Quick looks take the place of slow full ones for a while, and begin behind what
// was the last id long enough ago, or the oldest row that waits.
//
// Promise(outbox/open-transaction)
func TestWhenLooksAreQuick(t *testing.T) {
	l := looks{slow: 10 * time.Millisecond, settles: 10 * time.Second}
	at := time.Unix(0, 0).Add(time.Hour)
	after := func(d time.Duration) time.Time { at = at.Add(d); return at }
	full := func(took time.Duration, top int64, heads ...int64) {
		began, found := at, map[int]int64{}
		for i, head := range heads {
			found[i] = head
		}
		l.full(began, after(took), found, top)
	}
	expect := func(want int64) {
		t.Helper()
		if floor, ok := l.quick(at); ok != (want > 0) || ok && floor != want {
			t.Errorf("after %v: %v behind %d, want %d", at.Sub(time.Unix(0, 0)), ok, floor, want)
		}
	}
	full(time.Second, 100)
	expect(0) // transactions of then may be open
	after(10 * time.Second)
	full(time.Second, 200)
	expect(100)
	after(19 * time.Second)
	expect(100)
	after(time.Second)
	expect(0) // it is time for a full one
	full(time.Second, 300, 150, 250)
	expect(149)
	full(time.Second, 300, 50)
	expect(49)
	full(time.Second, 300, 320)
	expect(200)
	full(10*time.Millisecond, 300)
	expect(0) // full ones are quick enough
	full(time.Second, 120)
	expect(120) // the server has lost what came behind that
}
