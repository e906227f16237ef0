package outbox

import (
	"testing"
	"time"

	"keyfold/engine"
)

// What waits to be published again stays, however long ago it was sent: cleanup
// does not even look at it.
func TestCleanupLeavesWhatWaitsAgain(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 5, 50)
		now := engine.Now()
		day := engine.Millis(24 * time.Hour / time.Millisecond)
		_, err := db.pool.Exec("UPDATE user_interactions SET sent_at = ?, occurred_at = ?", timeText(now-10*day), timeText(now-11*day))
		must(t, err)
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
