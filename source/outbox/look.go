package outbox

import (
	"context"
	"sync"
	"time"
)

// looks is what a relay's goroutines know of how to look for rows.
//
// A full look reads one index entry per shard. But a sent row's entry stays where
// it was, marked as deleted, while any older transaction of the server is open (a
// backup, a forgotten session), and a look passes over all of these: 150 ms behind
// 100,000 of them. Quick looks between the full ones read the newest rows by
// primary key instead, where a row has one entry whatever became of it. They tell
// which shards have rows and not which rows: these are always read by the index. So a
// row that they pass over, of a transaction that lasts for long, is found by the next
// full look, or with the next row of its shard, and never after a later one of its user.
type looks struct {
	slow    time.Duration // a full look that takes longer is followed by quick ones
	settles time.Duration // transactions last less, but for a few

	mu          sync.Mutex
	fullAt      time.Time // when the last full look ended
	took        time.Duration
	floor       int64 // no unsent row was at or below it then
	last, newer mark  // the table's last ids: at least settles ago, and since
}

// mark says which id was a table's last one at a time.
type mark struct {
	at time.Time
	id int64
}

// quickShare is how many times as long as a full look took quick ones may take its
// place.
const quickShare = 20

// quickRows bounds a quick look: where more rows wait, a full look is cheaper.
const quickRows = 4096

// quick reports whether a quick look will do, and behind which id it begins.
func (l *looks) quick(now time.Time) (floor int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.floor, l.floor > 0 && l.took > l.slow && now.Sub(l.fullAt) < quickShare*l.took
}

// full notes what a full look found that began and ended at these times: the
// oldest unsent rows, and the table's last id, read before them.
func (l *looks) full(began, ended time.Time, heads map[int]int64, top int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fullAt, l.took = ended, ended.Sub(began)
	if began.Sub(l.newer.at) >= l.settles {
		l.last, l.newer = l.newer, mark{began, top}
	}
	l.floor = min(l.last.id, top) // a server that was killed may give ids away again
	for _, head := range heads {
		l.floor = min(l.floor, head-1)
	}
}

// look returns the shards that have something to send, with the ids of their oldest rows.
func (r *Relay) look(ctx context.Context) (map[int]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, r.lockWait)
	defer cancel()
	began := time.Now()
	if floor, ok := r.looks.quick(began); ok {
		heads, rows, err := r.db.headsBehind(ctx, floor)
		if err != nil || rows < quickRows {
			return heads, err
		}
	}
	var top int64
	err := r.db.pool.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM user_interactions").Scan(&top)
	if err != nil {
		return nil, err
	}
	heads, err := r.db.heads(ctx, 0)
	if err == nil {
		r.looks.full(began, time.Now(), heads, top)
	}
	return heads, err
}

// headsBehind is heads of the unsent rows behind an id; it reads quickRows at most, and says
// how many.
func (d *Database) headsBehind(ctx context.Context, floor int64) (heads map[int]int64, rows int, err error) {
	heads = map[int]int64{}
	err = each(ctx, d.pool, func(s scanner) error {
		var shard int
		var id int64
		err := s.Scan(&shard, &id)
		if _, known := heads[shard]; !known {
			heads[shard] = id
		}
		rows++
		return err
	}, "SELECT shard, id FROM user_interactions"+d.words.byID+
		" WHERE id > ? AND "+unsent+" AND shard < ? ORDER BY id LIMIT ?", floor, backfillShards, quickRows)
	return heads, rows, err
}
