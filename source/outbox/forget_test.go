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
		_, err = db.pool.Exec("REPLACE INTO keyfold_cleaned_ids (user_id, digest) VALUES (1, X'00112233445566778899AABBCCDDEEFF'), (2, X'00112233445566778899AABBCCDDEEFF')")
		must(t, err)
		want := count(1)
		if n, err := db.Forget(t.Context(), 1); n != want || n <= forgetChunk || err != nil {
			t.Errorf("deleted %d rows (%v), want %d", n, err, want)
		}
		if n, err := db.Forget(t.Context(), 1); n != 0 || err != nil {
			t.Errorf("the second time: %d, %v", n, err)
		}
		var cleaned, others int
		must(t, db.pool.QueryRow("SELECT coalesce(sum(user_id = 1), 0), coalesce(sum(user_id = 2), 0) FROM keyfold_cleaned_ids").Scan(&cleaned, &others))
		if cleaned != 0 || others != 1 {
			t.Errorf("%d ids of the user's cleaned events are left and %d of another, want 0 and 1", cleaned, others)
		}
		if count(1) != 0 || count(2) != rows-want {
			t.Errorf("%d rows of the user are left and %d of another, want 0 and %d", count(1), count(2), rows-want)
		}
	})
}
