package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/engine"
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
			err = d.pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM "+d.dialect.withIndex("user_interactions", "idx_unsent")+" WHERE "+condition+bound+") AS some_rows").Scan(&n)
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

// Gauge tells a scraper what waits, at a cost that does not grow with it. The age
// of the oldest row is always read. Rows are counted up to a bound, by one count
// at a time, which goes on when a scraper has left, and is kept for a while.
type Gauge struct {
	db    *Database
	count func(ctx context.Context, limit int64) (Backlog, error)
	wait  time.Duration // for a count under way

	mu      sync.Mutex
	counted Backlog
	at      time.Time     // of that count; zero: there was none
	running chan struct{} // closed when the count under way ends; nil: none is
}

// Bounds of a gauge's counts.
const (
	gaugeRows    = 1_000_000
	gaugeKeep    = 10 * time.Second
	gaugeWait    = time.Second
	gaugeTimeout = 25 * time.Second
	gaugeScrape  = 2 * time.Second // of the look for the oldest row
)

// NewGauge returns a gauge on a database.
func NewGauge(db *Database) *Gauge { return &Gauge{db: db, count: db.count, wait: gaugeWait} }

// Register adds the series to set. Where the database is away, or has not counted
// yet, they are left out. ctx ends the queries of a scrape.
func (g *Gauge) Register(ctx context.Context, set *metric.Set) {
	var seen atomic.Pointer[[4]float64]
	set.OnWrite(func() {
		ctx, cancel := context.WithTimeout(ctx, gaugeScrape)
		defer cancel()
		now := [4]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
		if oldest, err := g.db.oldest(ctx); err == nil {
			now[0] = Backlog{Oldest: oldest}.Age(engine.Now()).Seconds()
		}
		if b, known := g.recent(); known {
			now[1], now[2], now[3] = float64(b.Unsent), float64(b.Failed), float64(b.Backfill)
		}
		seen.Store(&now)
	})
	for i, series := range [4][2]string{
		{"keyfold_outbox_oldest_unsent_seconds", "How long the oldest row has waited to be published."},
		{"keyfold_outbox_unsent", "Rows that wait to be published; counted up to a million."},
		{"keyfold_outbox_failed", "Rows set aside; counted up to a million."},
		{"keyfold_outbox_backfill", "Rows left to a backfill; counted up to a million."},
	} {
		set.Gauge(series[0], series[1], func() float64 { return seen.Load()[i] })
	}
}

// Unsent returns how many rows wait to be published, as far as it is known, and
// otherwise -1.
func (g *Gauge) Unsent() int64 {
	b, known := g.recent()
	if !known {
		return -1
	}
	return b.Unsent
}

// recent returns the newest count there is. It starts one where that is old, and
// waits a moment for one under way.
func (g *Gauge) recent() (b Backlog, known bool) {
	g.mu.Lock()
	if g.running == nil && time.Since(g.at) >= gaugeKeep {
		g.running = make(chan struct{})
		go g.recount(g.running)
	}
	running := g.running
	g.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-time.After(g.wait):
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counted, !g.at.IsZero()
}

// recount counts without a scraper's context: a server goes on with a query whose
// client has left, and the next scrape would add another.
func (g *Gauge) recount(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), gaugeTimeout)
	defer cancel()
	b, err := g.count(ctx, gaugeRows)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = nil
	close(done)
	switch {
	case err == nil:
		g.counted, g.at = b, time.Now()
	case time.Since(g.at) >= 2*gaugeTimeout:
		g.at = time.Time{} // too old to be told
	}
}

// Count returns how many rows a filter picks.
func (d *Database) Count(ctx context.Context, filter Filter) (n int64, err error) {
	query, args := filter.restrict("SELECT COUNT(*) FROM user_interactions WHERE 1 = 1", nil)
	if err := d.pool.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, d.fault("count events", err)
	}
	return n, nil
}
