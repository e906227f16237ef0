package outbox

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/internal/testserver/must"
)

// While the database does not answer, a scrape tells what it answered last, and how old the
// oldest row is by now. What was read long ago is left out.
//
// Promise(outbox/scrapes): A scrape of metrics asks no server: the backlog is read beside it, by a
// bounded count.
func TestAScrapeAsksNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		g := &Gauge{read: func(ctx context.Context, _ int64) (Backlog, error) {
			if asked.Add(1) > 1 { // as where the table is locked
				<-ctx.Done()
				return Backlog{}, ctx.Err()
			}
			return Backlog{Unsent: 7, Oldest: engine.Now() - 1000}, nil
		}}
		var set metric.Set
		g.Register(&set)
		says := func(line string) {
			t.Helper()
			var text strings.Builder
			set.WritePrometheus(&text)
			if series, _, _ := strings.Cut(line, " "); line == series && strings.Contains(text.String(), "\n"+line+" ") ||
				line != series && !strings.Contains(text.String(), "\n"+line+"\n") {
				t.Errorf("not %q in\n%s", line, &text)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		says("keyfold_outbox_unsent")
		go g.Run(ctx)
		synctest.Wait()
		says("keyfold_outbox_unsent 7")
		time.Sleep(99 * time.Second)
		says("keyfold_outbox_unsent 7")
		says("keyfold_outbox_oldest_unsent_seconds 100")
		time.Sleep(gaugeKeep)
		says("keyfold_outbox_unsent")
		if n := asked.Load(); n > 6 {
			t.Errorf("%d readings of a database that does not answer", n)
		}
	})
}

// Promise(outbox/adopt-running)
func TestBacklogOldestAndLeftToABackfill(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 20, 300)
		exec := func(statement string) {
			_, err := db.pool.Exec(statement)
			must.OK(t, err)
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
