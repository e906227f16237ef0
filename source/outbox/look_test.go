package outbox

import (
	"testing"
	"time"
)

// A relay whose looks begin behind what was sent finds all the same what is
// committed late, given back and stored meanwhile, and keeps the order.
func TestQuickLooksFindEverything(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		b := &broker{}
		r := NewRelay(db, b, brisk(), quiet)
		r.looks.slow, r.looks.age = -1, 20*time.Millisecond // every look takes long
		running(t, r)
		for range 5 {
			fill(t, db, 20, 200)
			drained(t, db)
			_, err := db.pool.Exec("DELETE FROM user_interactions WHERE processed_to_queue = 1 AND id % 2 = 0")
			must(t, err)
			_, err = db.pool.Exec("UPDATE user_interactions SET processed_to_queue = 0, failed_at = created_at WHERE id % 7 = 0")
			must(t, err)
			_, err = db.RetryFailed(t.Context())
			must(t, err)
			drained(t, db)
		}
		eventually(t, "looks are quick", func() bool { return r.looks.plan(time.Now()) != nil })
	})
}

// What a look relies on is old: a row that was not visible to it, because its
// transaction was under way, is not passed over.
func TestLooksRelyOnOldOnes(t *testing.T) {
	l := looks{slow: 10 * time.Millisecond, age: 20 * time.Second}
	second := func(n int) time.Time { return time.Unix(int64(1000+n), 0) }
	at := func(id int64) (f floors) {
		for shard := range f {
			f[shard] = id
		}
		return f
	}
	full := func(n int, took time.Duration, id int64) {
		t.Helper()
		if l.plan(second(n)) != nil {
			t.Errorf("second %d: the look is not a full one", n)
		}
		l.saw(second(n), took, at(id))
	}
	quick := func(n int, id int64) {
		t.Helper()
		if got := l.plan(second(n)); got == nil || got[5] != id {
			t.Errorf("second %d: the look begins at %v, want %d", n, got, id)
		}
	}
	full(0, time.Second, 100)
	full(19, time.Second, 200) // nothing is old enough
	full(20, time.Second, 300)
	quick(21, 100)
	quick(39, 100)
	full(40, time.Second, 400)
	quick(41, 300)
	full(60, time.Second, 50) // rows were given back
	quick(61, 50)
	full(80, time.Millisecond, 500)
	full(81, time.Millisecond, 500) // as long as it is cheap
}
