package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/metric"
)

// Backlog is what waits in a database.
type Backlog struct {
	Unsent   int64         // rows for a relay to publish
	Oldest   engine.Millis // when the first of them was stored; 0 without any
	Failed   int64         // rows set aside
	Backfill int64         // rows left to a backfill
}

// Age returns how long the oldest row has waited.
func (b Backlog) Age(now engine.Millis) time.Duration {
	if b.Oldest == 0 {
		return 0
	}
	return max(0, time.Duration(now-b.Oldest)*time.Millisecond)
}

// Backlog counts what waits, up to limit rows of each kind; 0 is no limit. It reads one
// index entry per row that it counts.
func (d *Database) Backlog(ctx context.Context, limit int64) (Backlog, error) {
	b, err := d.count(ctx, limit)
	if err == nil {
		b.Oldest, err = d.oldest(ctx)
	}
	return b, err
}

// count counts up to limit rows of each kind; 0 is no limit.
func (d *Database) count(ctx context.Context, limit int64) (b Backlog, err error) {
	waits, err := d.waits(ctx)
	if err != nil {
		return Backlog{}, d.fault("count unsent events", err)
	}
	bound := ""
	if limit > 0 {
		bound = fmt.Sprint(" LIMIT ", limit)
	}
	count := func(condition string, into *int64) {
		var n int64
		if err == nil {
			err = d.pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM user_interactions"+d.words.index("idx_unsent")+" WHERE "+condition+bound+") AS some_rows").Scan(&n)
		}
		*into += n
	}
	for _, condition := range waits {
		count(fmt.Sprint(condition, " AND shard < ", backfillShards), &b.Unsent)
		count(fmt.Sprint(condition, " AND shard >= ", backfillShards), &b.Backfill)
	}
	if count(failed, &b.Failed); err != nil {
		return Backlog{}, d.fault("count unsent events", err)
	}
	return b, nil
}

// oldest returns when the oldest row for a relay was stored, by the oldest of
// each shard; 0 without any. What is no time, in a row of a shop's, is passed over.
func (d *Database) oldest(ctx context.Context) (oldest engine.Millis, err error) {
	heads, err := d.heads(ctx, 0)
	if err != nil {
		return 0, d.fault("look for the oldest event", err)
	}
	if len(heads) == 0 {
		return 0, nil
	}
	ids := slices.Collect(maps.Values(heads))
	stored, err := collect(ctx, d.pool, column[sql.NullString], "SELECT created_at FROM user_interactions WHERE id IN ("+list(len(ids))+")", anyOf(ids)...)
	if err != nil {
		return 0, d.fault("read the oldest event", err)
	}
	for _, text := range stored {
		if at, err := parseTime(text.String); err == nil && (oldest == 0 || at < oldest) {
			oldest = at
		}
	}
	return oldest, nil
}

// Gauge tells scrapers what waits. It asks the database by itself, so that a scrape waits for
// none, and the less often the longer the answers take.
type Gauge struct {
	read func(ctx context.Context, limit int64) (Backlog, error)

	mu    sync.Mutex
	last  Backlog
	began time.Time // of the reading; zero: there was none
}

// Bounds of a gauge's readings.
const (
	gaugeRows     = 1_000_000
	gaugeMinPause = time.Second
	gaugeMaxPause = 30 * time.Second
	gaugeShare    = 20 // times what a reading took is the pause behind it
	gaugeTimeout  = 25 * time.Second
	gaugeKeep     = 2 * time.Minute
)

// NewGauge returns a gauge on a database, which knows nothing until it is run.
func NewGauge(db *Database) *Gauge { return &Gauge{read: db.Backlog} }

// Run reads the backlog until ctx ends.
func (g *Gauge) Run(ctx context.Context) {
	for {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, gaugeTimeout)
		b, err := g.read(bounded, gaugeRows)
		cancel()
		if err == nil {
			g.mu.Lock()
			g.last, g.began = b, began
			g.mu.Unlock()
		}
		if !backoff.Sleep(ctx, min(gaugeMaxPause, max(gaugeMinPause, gaugeShare*time.Since(began)))) {
			return
		}
	}
}

// Register adds the series to set. They are left out until the first reading has ended, and
// once the last one is two minutes old: the database is away.
func (g *Gauge) Register(set *metric.Set) {
	series := [4][2]string{
		{"keyfold_outbox_oldest_unsent_seconds", "How long the oldest row has waited to be published."},
		{"keyfold_outbox_unsent", "Rows that wait to be published; counted up to a million."},
		{"keyfold_outbox_failed", "Rows set aside; counted up to a million."},
		{"keyfold_outbox_backfill", "Rows left to a backfill; counted up to a million."},
	}
	for i, value := range [4]func(Backlog) float64{
		func(b Backlog) float64 { return b.Age(engine.Now()).Seconds() },
		func(b Backlog) float64 { return float64(b.Unsent) },
		func(b Backlog) float64 { return float64(b.Failed) },
		func(b Backlog) float64 { return float64(b.Backfill) },
	} {
		set.Gauge(series[i][0], series[i][1], func() float64 {
			b, known := g.known()
			if !known {
				return math.NaN()
			}
			return value(b)
		})
	}
}

// Unsent returns how many rows wait to be published, as far as it is known, and
// otherwise -1.
func (g *Gauge) Unsent() int64 {
	b, known := g.known()
	if !known {
		return -1
	}
	return b.Unsent
}

// known returns the last reading.
func (g *Gauge) known() (b Backlog, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last, !g.began.IsZero() && time.Since(g.began) < gaugeKeep
}

// Count returns how many rows a filter picks.
func (d *Database) Count(ctx context.Context, filter Filter) (n int64, err error) {
	query, args := filter.restrict("SELECT COUNT(*) FROM user_interactions WHERE 1 = 1", nil)
	if err := d.pool.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, d.fault("count events", err)
	}
	return n, nil
}
