package outbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// A run frees no more rows than its limit, the oldest first, and what is not sent stays.
func TestCleanupHasALimit(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := storeOn(t, db, StoreConfig{})
		for i := range 6 {
			add(t, s, view(t, int32(i+1), i))
		}
		exec(t, db, "UPDATE user_interactions SET processed_to_queue = TRUE, created_at = '2020-01-01 00:00:00.000', sent_at = '2020-01-01 00:00:00.000' WHERE id < 6")
		c := NewCleaner(db, CleanerConfig{After: time.Hour, Rows: 3}, quiet)
		for _, want := range []int64{3, 5, 5} {
			c.once(t.Context())
			if n := c.Stats.Rows.Load(); n != want {
				t.Errorf("%d rows are freed, want %d", n, want)
			}
		}
		rows, err := collect(t.Context(), db.pool, column[int64], "SELECT id FROM user_interactions WHERE body IS NOT NULL")
		must.OK(t, err)
		if len(rows) != 1 || c.Stats.Runs.Load() != 3 || c.Stats.Last.Load() == 0 {
			t.Errorf("rows %v have a body after %d runs", rows, c.Stats.Runs.Load())
		}
	})
}

// A failure is logged when it begins, and the next run comes at its time.
func TestCleanerGoesOnAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := NewCleaner(&Database{}, CleanerConfig{After: 24 * time.Hour, Every: time.Minute}, slog.New(slog.NewTextHandler(&log, nil)))
		var calls []time.Duration
		began := time.Now()
		c.clean = func(_ context.Context, before engine.Millis, options CleanupOptions) (int64, error) {
			calls = append(calls, time.Since(began))
			if age := time.Since(before.Time()); age.Round(time.Second) != 24*time.Hour || options.Limit != 100_000 {
				t.Errorf("cleans what was sent %s ago, at most %d rows", age, options.Limit)
			}
			if len(calls) <= 2 {
				return 0, errors.New("the disk is full")
			}
			return 0, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		time.Sleep(3*time.Minute + time.Second)
		cancel()
		<-ended
		if len(calls) != 4 || calls[3] != 3*time.Minute {
			t.Errorf("runs at %v", calls)
		}
		if n := strings.Count(log.String(), "disk is full"); n != 1 || !strings.Contains(log.String(), "outbox.CleanerConfig.After=0") || c.Stats.Failed.Load() != 2 {
			t.Errorf("%d failures, %d lines of %s", c.Stats.Failed.Load(), n, &log)
		}
	})
}
