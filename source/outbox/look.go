package outbox

import (
	"context"
	"slices"
	"sync"
	"time"
)

// looks is what a relay's goroutines know of how to look for rows.
//
// A full look reads one index entry per shard. But a sent row's entry stays where
// it was, marked as deleted, while any older transaction of the server is open (a
// backup, a forgotten session), and a look passes over all of these: 150 ms behind
// 100,000 of them. Quick looks between the full ones read the newest rows by
// primary key instead, where a row has one entry whatever became of it. They begin
// behind an id that is older than transactions last, so that they find a user's
// rows in their order; what they pass over is found by the next full look.
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

// look returns the shards that have something to send, with the id of each one's
// oldest row, and behind which id a quick look began; 0 for a full one.
func (r *Relay) look(ctx context.Context) (heads map[int]int64, floor int64, err error) {
	began := time.Now()
	if floor, ok := r.looks.quick(began); ok {
		rows, err := r.db.newRows(ctx, r.db.pool, floor)
		if err != nil || len(rows) < quickRows {
			return headsOf(rows), floor, err
		}
	}
	var top int64
	err = r.db.pool.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM user_interactions").Scan(&top)
	if err != nil {
		return nil, 0, err
	}
	heads, err = r.db.heads(ctx, 0)
	if err == nil {
		r.looks.full(began, time.Now(), heads, top)
	}
	return heads, 0, err
}

// place is where an unsent row is.
type place struct {
	id    int64
	shard int
	user  int32
}

func headsOf(rows []place) map[int]int64 {
	heads := map[int]int64{}
	for _, row := range slices.Backward(rows) {
		heads[row.shard] = row.id
	}
	return heads
}

// newRows lists the unsent rows behind an id, oldest first; quickRows at most.
func (d *Database) newRows(ctx context.Context, run runner, floor int64) ([]place, error) {
	return collect(ctx, run, func(s scanner) (row place, err error) {
		var user userID
		err = s.Scan(&row.id, &row.shard, &user)
		row.user = user.id
		return row, err
	}, "SELECT id, shard, user_id FROM "+d.dialect.byID("user_interactions")+
		" WHERE id > ? AND "+unsent+" AND shard < ? ORDER BY id LIMIT ?", floor, backfillShards, quickRows)
}

// fetchNew is [Relay.fetch] after a quick look. It lists the rows again, now that
// the shards are leased: a row that was committed since may be an older one of a
// user than those the look saw.
func (r *Relay) fetchNew(ctx context.Context, l *lease, find query) ([]stored, error) {
	rows, err := r.db.newRows(ctx, l.run, find.floor)
	if err != nil {
		return nil, err
	}
	share := max(1, r.config.BatchRows/len(l.shards))
	ids := pick(rows, l.shards, find.held, share)
	if len(ids) == 0 {
		return nil, nil
	}
	return collect(ctx, l.run, scanStored, "SELECT "+rowColumns+" FROM user_interactions WHERE "+unsent+" AND id IN ("+list(len(ids))+") ORDER BY id", anyOf(ids)...)
}

// pick returns the ids of a batch's rows: of each shard its share, and of one user
// half of that.
func pick(rows []place, shards []int, held map[int][]int32, share int) (ids []int64) {
	left, users := map[int]int{}, map[int32]int{}
	for _, shard := range shards {
		left[shard] = share
	}
	for _, row := range rows {
		if left[row.shard] == 0 || users[row.user] == max(1, share/2) || slices.Contains(held[row.shard], row.user) {
			continue
		}
		left[row.shard]--
		users[row.user]++
		ids = append(ids, row.id)
	}
	return ids
}
