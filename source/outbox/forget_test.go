package outbox

import "testing"

// All rows of a user go, in as many chunks as it takes, and no others.
func TestForgetDeletesAUsersRows(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		const rows = 5 * forgetChunk
		fill(t, db, 2, rows)
		_, err := db.pool.Exec("UPDATE user_interactions SET processed_to_queue = TRUE WHERE id % 3 = 0")
		must(t, err)
		count := func(user int32) int64 {
			n, err := db.Count(t.Context(), Filter{UserID: user})
			must(t, err)
			return n
		}
		want := count(1)
		if n, err := db.Forget(t.Context(), 1); n != want || n <= forgetChunk || err != nil {
			t.Errorf("deleted %d rows (%v), want %d", n, err, want)
		}
		if n, err := db.Forget(t.Context(), 1); n != 0 || err != nil {
			t.Errorf("the second time: %d, %v", n, err)
		}
		for user, want := range map[int32]int64{1: 0, 2: rows - want} {
			n, err := db.countOld(t.Context(), "SELECT COUNT(*) FROM keyfold_event_ids WHERE user_id = ?", user)
			if err != nil || n != want {
				t.Errorf("%d ids of user %d are left, %v; want %d", n, user, err, want)
			}
		}
		if count(1) != 0 || count(2) != rows-want {
			t.Errorf("%d rows of the user are left and %d of another, want 0 and %d", count(1), count(2), rows-want)
		}
	})
}
