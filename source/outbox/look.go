package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// looks remembers below which id a shard has nothing to send.
//
// A row that was sent leaves its entry in idx_unsent behind, marked as deleted,
// until the server purges it, which it cannot while anybody reads an older
// snapshot: a dump of the table, say. No choice of index spares that; every look
// reads past all of them, at 70 ns each, and at 3 us where a transaction that is
// older than the entries is open (150,000 rows sent: 10 ms and 400 ms). So where
// a look takes long, the next ones begin behind what an earlier look found sent.
// That look is so old that the transactions of that time have ended: rows with
// lower ids that were not visible to it are. Every so often a full look finds
// those that are not, and those that were set aside and given back.
type looks struct {
	slow time.Duration // what a full look may take
	age  time.Duration // of what quick looks rely on, and between full ones

	mu     sync.Mutex
	full   time.Time // when the newest full look began
	long   bool      // it took longer than slow
	floors *floors   // of a look that is old enough; nil: there is none
	seen   *floors   // of one that is not yet
	at     time.Time // when that one began
}

// floors are ids by shard. No row below them waits, as far as was visible.
type floors [Shards]int64

// plan returns where a look begins, nil for a full one.
func (l *looks) plan(now time.Time) *floors {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.long && l.floors != nil && now.Sub(l.full) < l.age {
		from := *l.floors
		return &from
	}
	l.full = now
	return nil
}

// saw notes what a full look found.
func (l *looks) saw(began time.Time, took time.Duration, found floors) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.long = took > l.slow
	switch {
	case l.seen == nil:
		l.seen, l.at = &found, began
	case began.Sub(l.at) >= l.age:
		l.floors = l.seen
		l.seen, l.at = &found, began
	}
	if l.floors == nil {
		return
	}
	for shard := range l.floors {
		l.floors[shard] = min(l.floors[shard], found[shard])
	}
}

// look returns the shards that have something to send, and where their rows
// begin.
func (r *Relay) look(ctx context.Context) (pending []int, from floors, err error) {
	began := time.Now()
	if quick := r.looks.plan(began); quick != nil {
		pending, err = r.db.pendingFrom(ctx, quick)
		return pending, *quick, err
	}
	var newest int64
	err = r.db.pool.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM user_interactions").Scan(&newest)
	if err != nil {
		return nil, from, err
	}
	heads, err := r.db.heads(ctx, 0)
	if err != nil {
		return nil, from, err
	}
	var found floors
	for shard := range found {
		found[shard] = newest + 1
		if head, waits := heads[shard]; waits {
			found[shard] = head
			pending = append(pending, shard)
		}
	}
	r.looks.saw(began, time.Since(began), found)
	return pending, from, nil
}

// pendingFrom returns the shards that have something to send from these ids on.
// The ids stand in the statement, so that the server begins there.
func (d *Database) pendingFrom(ctx context.Context, from *floors) (pending []int, err error) {
	parts := make([]string, len(from))
	table := d.dialect.through("user_interactions", "idx_unsent")
	for shard, id := range from {
		parts[shard] = d.dialect.part(fmt.Sprintf("SELECT shard FROM %s WHERE %s AND shard = %d AND id >= %d ORDER BY id LIMIT 1", table, unsent, shard, id))
	}
	err = each(ctx, d.pool, func(s scanner) error {
		var shard int
		err := s.Scan(&shard)
		pending = append(pending, shard)
		return err
	}, strings.Join(parts, " UNION ALL "))
	slices.Sort(pending)
	return pending, err
}
