package outbox

import (
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// What waits to be published again stays, however long ago it was sent: cleanup
// does not even look at it.
func TestCleanupLeavesWhatWaitsAgain(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 5, 50)
		now := engine.Now()
		day := engine.Millis(24 * time.Hour / time.Millisecond)
		_, err := db.pool.Exec("UPDATE user_interactions SET sent_at = ?, occurred_at = ?, created_at = ?", timeText(now-10*day), timeText(now-11*day), timeText(now-11*day))
		must.OK(t, err)
		n, err := db.Cleanup(t.Context(), now-7*day, CleanupOptions{Chunk: 20, Pause: 1, Progress: func(int64) {
			t.Error("a chunk had rows to delete")
		}})
		if err != nil || n != 0 {
			t.Errorf("deleted %d rows, %v", n, err)
		}
		if got := backlog(t, db); got.Unsent != 50 {
			t.Errorf("%d rows are left, want 50", got.Unsent)
		}
	})
}

// A row that waits does not keep those behind it from being freed, and is freed itself
// once it was sent; a row that was set aside is passed.
func TestCleanupComesBackToWhatWaited(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 5, 20)
		exec(t, db, "UPDATE user_interactions SET created_at = '2020-01-01 00:00:00.000'")
		exec(t, db, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = '2020-01-01 00:00:00.000' WHERE id NOT IN (3, 7)")
		exec(t, db, "UPDATE user_interactions SET failed_at = '2020-01-01 00:00:00.000' WHERE id = 3")
		for _, want := range []int64{18, 0} {
			if n, err := db.Cleanup(t.Context(), engine.Now(), CleanupOptions{Chunk: 4, Pause: 1}); n != want || err != nil {
				t.Errorf("%d rows are freed, %v; want %d", n, err, want)
			}
		}
		passed, err := collect(t.Context(), db.pool, column[int64], "SELECT cleaned_id FROM keyfold_outbox_state WHERE id = 2")
		if err != nil || len(passed) != 1 || passed[0] != 6 {
			t.Errorf("cleaned up to %v, %v; want the row before the one that waits", passed, err)
		}
		exec(t, db, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = '2020-01-01 00:00:00.000' WHERE id = 7")
		if n, err := db.Cleanup(t.Context(), engine.Now(), CleanupOptions{Chunk: 4, Pause: 1}); n != 1 || err != nil {
			t.Errorf("%d rows are freed once the row was sent, %v", n, err)
		}
	})
}

// A shop's row says that it was stored in 2099. Cleanup goes on behind it, and frees it too
// once it was sent in time; a row that was stored after the limit still ends it.
//
// Promise(outbox/future-row): A cleanup goes on behind a row that says it was stored in 2099.
func TestCleanupPassesARowOfTheFuture(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 5, 30)
		exec(t, db, "UPDATE user_interactions SET created_at = '2020-01-01 00:00:00.000', processed_to_queue = TRUE, sent_at = '2020-01-01 00:00:00.000'")
		exec(t, db, "UPDATE user_interactions SET created_at = '2099-01-01 00:00:00.000' WHERE id IN (4, 9)")
		exec(t, db, "UPDATE user_interactions SET sent_at = ? WHERE id = 9", timeText(engine.Now()))
		limit := engine.Millis(1_600_000_000_000) // 2020-09-13
		exec(t, db, "UPDATE user_interactions SET created_at = '2021-01-01 00:00:00.000' WHERE id = 21")
		if n, err := db.Cleanup(t.Context(), limit, CleanupOptions{Chunk: 4, DryRun: true}); n != 19 || err != nil {
			t.Errorf("a dry run counts %d rows, %v; want 19", n, err)
		}
		if n, err := db.Cleanup(t.Context(), limit, CleanupOptions{Chunk: 4, Pause: 1}); n != 19 || err != nil {
			t.Errorf("%d rows are freed, %v; want 19", n, err)
		}
		full, err := collect(t.Context(), db.pool, column[int64], "SELECT id FROM user_interactions WHERE body IS NOT NULL ORDER BY id")
		if err != nil || len(full) != 11 || full[0] != 9 || full[1] != 21 {
			t.Errorf("the rows %v are left, %v; want 9, and those from 21 on", full, err)
		}
	})
}

// What has become of a row since a cleanup looked at it counts: one that waits again, and
// one that was sent again after the limit, keep their bodies.
//
// Promise(outbox/future-row)
func TestCleanupLooksAgainAtWhatItFrees(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 2, 3)
		now := engine.Now()
		exec(t, db, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = '2020-01-01 00:00:00.000'")
		exec(t, db, "UPDATE user_interactions SET processed_to_queue = FALSE WHERE id = 1")
		exec(t, db, "UPDATE user_interactions SET sent_at = ? WHERE id = 2", timeText(now))
		c := cleanup{db: db, limit: now - 1000, now: now}
		if n, err := c.free(t.Context(), []int64{1, 2, 3}); n != 1 || err != nil {
			t.Errorf("%d rows are freed, %v; want the third alone", n, err)
		}
	})
}
