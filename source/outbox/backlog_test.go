package outbox

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
)

// While a count takes longer than any scraper waits, each scrape still tells how
// old the oldest row is, and none adds a count.
func TestAGaugeCountsOnceAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 20, 300)
		_, err := db.pool.Exec("UPDATE user_interactions SET created_at = '2026-02-10 14:30:00.000' WHERE id = 1")
		must(t, err)
		g := NewGauge(db)
		g.wait = time.Millisecond
		var counts atomic.Int64
		release := make(chan struct{})
		g.count = func(ctx context.Context, limit int64) (Backlog, error) {
			counts.Add(1)
			<-release
			return db.count(ctx, min(limit, 100))
		}
		var set metric.Set
		g.Register(t.Context(), &set)
		scrape := func() string {
			var text strings.Builder
			set.WritePrometheus(&text)
			return text.String()
		}
		var scrapers sync.WaitGroup
		for range 30 {
			scrapers.Go(func() {
				if text := scrape(); !strings.Contains(text, "\nkeyfold_outbox_oldest_unsent_seconds ") || strings.Contains(text, " 0\n") {
					t.Errorf("a scrape during a count says %q", text)
				}
			})
		}
		scrapers.Wait()
		close(release)
		eventually(t, "the count ends", func() bool { return strings.Contains(scrape(), "keyfold_outbox_unsent 100\n") })
		if n := counts.Load(); n != 1 {
			t.Errorf("%d counts for 30 scrapes", n)
		}
	})
}

func TestBacklogOldestAndLeftToABackfill(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 20, 300)
		exec := func(statement string) {
			_, err := db.pool.Exec(statement)
			must(t, err)
		}
		// Rows of the past were taken over; the oldest of today has a high id.
		exec("UPDATE user_interactions SET shard = shard + 64, created_at = '2020-01-01 00:00:00.000' WHERE id <= 100")
		exec("UPDATE user_interactions SET created_at = '2026-02-10 14:30:00.000' WHERE id = (SELECT n FROM (SELECT MIN(id) AS n FROM user_interactions WHERE id > 100 AND user_id = 7) AS o)")
		got := backlog(t, db)
		if got.Unsent != 200 || got.Backfill != 100 || got.Oldest != 1770733800000 {
			t.Errorf("the backlog is %+v", got)
		}
		b := &broker{}
		stop := running(t, NewRelay(db, b, brisk(), quiet))
		drained(t, db)
		stop()
		b.expectAll(t, 200)
		if got := backlog(t, db); got.Backfill != 100 {
			t.Errorf("after the relay: %+v", got)
		}
		n, err := NewRelay(db, b, brisk(), quiet).Drain(t.Context(), Filter{From: engine.Earliest}, nil)
		if err != nil || n != 100 {
			t.Errorf("the backfill sent %d, %v", n, err)
		}
		b.expectAll(t, 300)
	})
}
