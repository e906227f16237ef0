package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/causes"
	"keyfold/engine/metric"
	"keyfold/engine/terse"
)

// CleanerConfig holds a cleaner's settings. The zero value of each is its default.
type CleanerConfig struct {
	After time.Duration // how long a row keeps its body once it is sent; 0: for good
	Every time.Duration // from the end of a run to the next; default 1 h
	Rows  int64         // at most so many in one run; default 100,000
}

// Validate reports every fault at once.
func (c CleanerConfig) Validate() error {
	var faults engine.Faults
	faults.If(c.After < 0, "%s is %s: it must not be negative; 0 cleans nothing", afterSetting, c.After)
	faults.If(c.Every < 0, "%s is %s: it must be above 0, such as 1h", everySetting, c.Every)
	faults.If(c.Rows < 0, "%s is %d: it must be above 0, such as 100000", rowsSetting, c.Rows)
	if len(faults) == 0 {
		return nil
	}
	return engine.ConfigurationError("cleanup_configuration", faults.Err())
}

// Cleaner runs [Database.Cleanup] again and again, beside a relay. Several at once do
// no harm: a row is freed by one of them.
type Cleaner struct {
	Stats CleanerStats

	config CleanerConfig
	log    *slog.Logger
	fault  terse.Fault
	clean  func(ctx context.Context, sentBefore engine.Millis, options CleanupOptions) (int64, error)
}

// CleanerStats counts since the start. Its fields are read with Load.
type CleanerStats struct {
	Rows   atomic.Int64 // freed
	Runs   atomic.Int64 // that ended well
	Failed atomic.Int64 // runs
	Last   atomic.Int64 // gauge: when a run last ended well, Unix seconds; 0: never
}

// NewCleaner returns a cleaner of a database.
func NewCleaner(db *Database, config CleanerConfig, log *slog.Logger) *Cleaner {
	config.Every = cmp.Or(config.Every, time.Hour)
	config.Rows = cmp.Or(config.Rows, 100_000)
	return &Cleaner{config: config, log: log.With("component", "outbox"), clean: db.Cleanup}
}

// Run cleans until ctx ends; at once, and then at its interval.
func (c *Cleaner) Run(ctx context.Context) {
	if c.config.After == 0 {
		return
	}
	for {
		c.once(ctx)
		if !backoff.Sleep(ctx, c.config.Every) {
			return
		}
	}
}

func (c *Cleaner) once(ctx context.Context) {
	var counted int64
	n, err := c.clean(ctx, engine.MillisOf(time.Now().Add(-c.config.After)), CleanupOptions{
		Limit: c.config.Rows,
		Progress: func(done int64) {
			c.Stats.Rows.Add(done - counted)
			counted = done
		},
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.Stats.Failed.Add(1)
		if c.fault.Begins(err) {
			c.log.Error("cleanup of the outbox failed: events are published all the same", slog.Any("error", err), slog.Duration("retry_in", c.config.Every),
				slog.String("hint", cleanupHint(err)))
		}
	default:
		c.Stats.Runs.Add(1)
		c.Stats.Last.Store(time.Now().Unix())
		if _, was := c.fault.Ends(); was || n > 0 {
			c.log.Info("outbox cleaned", slog.Int64("rows", n))
		}
	}
}

func cleanupHint(err error) string {
	if errors.Is(err, engine.ErrAway) {
		return causes.Hint(err, "the next run goes on")
	}
	return fmt.Sprintf("the next run goes on; %s shows the fault, %s=0 turns the cleanup off", cleanupCommand, afterSetting)
}

// Register adds the cleaner's series to set.
func (c *Cleaner) Register(set *metric.Set) {
	set.Counter("keyfold_outbox_cleaned_rows_total", "Rows whose bodies and headers were freed by the scheduled cleanup.", c.Stats.Rows.Load)
	const runs = "Runs of the scheduled cleanup, by outcome."
	set.Counter(`keyfold_outbox_cleanups_total{outcome="done"}`, runs, c.Stats.Runs.Load)
	set.Counter(`keyfold_outbox_cleanups_total{outcome="failed"}`, runs, c.Stats.Failed.Load)
	set.Gauge("keyfold_outbox_cleanup_last_seconds", "When the scheduled cleanup last ended well, Unix time; 0: not since the start.", metric.Int(c.Stats.Last.Load))
}
