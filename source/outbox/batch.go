package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"keyfold/engine"
)

// batch publishes one batch of whatever shards have something to send, and
// returns how many rows met their fate. The error says why nothing can be
// published now. ctx says whether to go on, work bounds what is under way.
func (r *Relay) batch(ctx, work context.Context) (done int, err error) {
	heads, err := r.look(work)
	if err != nil {
		return 0, r.blocked(work, "look for events", err)
	}
	r.noteHeads(heads)
	if len(heads) == 0 {
		r.noteSuccess() // or a fault would outlive its last row
		return 0, nil
	}
	held := r.paused.waiting(time.Now())
	wanted := r.choose(slices.Collect(maps.Keys(heads)), held)
	if len(wanted) == 0 {
		return 0, nil
	}
	turnedAway := r.turnedAway.Load()
	result, err := r.publishShards(ctx, work, wanted, query{held: held, heads: heads})
	if result.rows > 0 && len(heads) > len(wanted) {
		r.Wake() // there is work for another goroutine
	}
	// A goroutine that a new row woke went away again if it found the shard held here.
	// atLease is read first: who leaves it is counted by then.
	if result.shards > 0 && result.done == 0 && (r.atLease.Load() > 0 || r.turnedAway.Load() != turnedAway) {
		r.Wake()
	}
	return result.done, err
}

// result is what came of a batch.
type result struct {
	shards int // locked
	rows   int // read
	done   int // sent or refused
	sent   int
}

// publishShards locks shards, reads their oldest rows, publishes and marks them,
// and lets the shards go.
func (r *Relay) publishShards(ctx, work context.Context, wanted []int, find query) (result, error) {
	leased := time.Now()
	l, err := r.lease(work, wanted)
	if err != nil {
		return result{}, r.blocked(work, "lock shards", err)
	}
	defer r.locked.hold(l.shards)()
	if find.heads != nil {
		r.watchLocks(work, wanted, l.shards, find.heads)
	}
	if len(l.shards) == 0 {
		return result{}, l.end(false)
	}
	rows, plan, done, err := r.prepare(work, l, find)
	if err != nil {
		_ = l.end(false) // its connection failed
		return result{}, err
	}
	w := newRounds(r, rows)
	w.until = leased.Add(r.leaseLasts)
	if r.streams != nil {
		w.runPlan(ctx, work, plan)
	} else {
		w.run(ctx, work)
	}
	r.Stats.Batches.Add(1)
	r.Stats.Held.Store(r.paused.size())
	began := time.Now()
	err = r.mark(work, l, w)
	r.Stats.mark.Observe(time.Since(began))
	if err != nil {
		return result{}, r.db.fault("mark events as sent", err)
	}
	if w.stop == nil && len(w.sent) > 0 {
		r.noteSuccess()
	}
	done.sent, done.done = len(w.sent), done.done+len(w.sent)+len(w.failures)
	return done, w.stop
}

// prepare reads rows of the leased shards and returns those that may be published. To
// streams goes first what was noted before and not marked, alone.
func (r *Relay) prepare(ctx context.Context, l *lease, find query) (rows []stored, p plan, done result, err error) {
	var all map[int]*numbers
	if r.streams != nil {
		if all, err = r.numbersOf(ctx, l); err == nil {
			p, err = r.resume(ctx, l, all)
		}
		if err != nil || len(p.numbers) > 0 {
			return nil, p, result{shards: len(l.shards), rows: len(p.numbers)}, err
		}
	}
	began := time.Now()
	rows, read, err := r.fetch(ctx, l, find)
	r.Stats.fetch.Observe(time.Since(began))
	if err != nil {
		return nil, p, done, r.db.fault("read events", err)
	}
	due := len(rows)
	rows, resolved, err := r.complete(ctx, l.run, rows)
	if err != nil {
		return nil, p, done, r.db.fault("complete events", err)
	}
	if rows, p, err = r.try(ctx, rows, all); err != nil {
		return nil, p, done, r.blocked(ctx, "note events as tried", err)
	}
	if waiting := due - resolved - len(rows); waiting > 0 {
		r.logWaiting(waiting)
	}
	return rows, p, result{shards: len(l.shards), rows: read, done: resolved}, nil
}

// logWaiting logs rows that a batch left alone, at most once a minute.
func (r *Relay) logWaiting(rows int) {
	r.refusals.Add("waiting", func(n int) {
		attrs := []any{slog.Int("rows", rows), slog.String("hint", "see which transaction of the shop's stays open (SHOW ENGINE INNODB STATUS, pg_locks); the events are sent once it has ended")}
		if n > 1 {
			attrs = append(attrs, slog.Int("count", n))
		}
		r.log.Warn("events not published: another transaction has locked or changed their rows, and their users' later events wait", attrs...)
	})
}

// upTo keeps, of rows in the order of their ids, each user's before the first that is
// not ready: none of a user's rows goes before an earlier one.
func upTo(rows []stored, ready func(*stored) bool) []stored {
	stopped := map[int32]bool{}
	return slices.DeleteFunc(rows, func(row stored) bool {
		user := row.Event.UserID
		stopped[user] = stopped[user] || !ready(&row)
		return stopped[user]
	})
}

// lease locks those of the shards that are free, and counts who finds none.
func (r *Relay) lease(ctx context.Context, wanted []int) (*lease, error) {
	r.atLease.Add(1)
	defer r.atLease.Add(-1)
	l, err := r.db.dialect.lease(ctx, r.db.pool, wanted)
	if err == nil && len(l.shards) == 0 {
		r.turnedAway.Add(1)
	}
	return l, err
}

// maxHeldUsers is how many users of one shard are left out of a query by name.
// With more of them the shard rests: nothing but a lack of queues refuses so
// many.
const maxHeldUsers = 256

// choose picks the shards of a batch: they take turns, so that a busy one does
// not keep the others waiting.
func (r *Relay) choose(pending []int, held map[int][]int32) []int {
	start := int(r.cursor.Add(uint32(r.config.BatchShards))) % Shards
	slices.SortFunc(pending, func(a, b int) int {
		return cmp.Compare((a-start+Shards)%Shards, (b-start+Shards)%Shards)
	})
	var wanted []int
	for _, shard := range pending {
		if len(held[shard]) <= maxHeldUsers && len(wanted) < r.config.BatchShards {
			wanted = append(wanted, shard)
		}
	}
	return wanted
}

// query says which rows a batch reads.
type query struct {
	held   map[int][]int32 // users left out, by shard
	filter Filter
	heads  map[int]int64 // ids of the oldest rows of the shards that have any; nil: a backfill's
}

// try notes of the rows that were not tried before that they are now, durably:
// whatever becomes of this process, a later copy of theirs says since when there
// may be an earlier one. It returns the rows that may be published.
//
// They need not be there: a server shows a transaction to others before it is durable,
// and one that is killed in between takes it back and gives its ids away again.
// The server writes its transactions in their order, so that this one, once it is
// durable, vouches for the rows. A row that another transaction has locked is left
// alone, or it would hold up whatever else is in the batch.
//
// Where rows go to streams, numbers is not nil, and their groups are noted with them.
func (r *Relay) try(ctx context.Context, rows []stored, numbers map[int]*numbers) (ready []stored, p plan, err error) {
	all := make([]Row, len(rows))
	for i := range rows {
		all[i] = rows[i].Row
	}
	ctx, cancel := context.WithTimeout(ctx, r.lockWait)
	defer cancel()
	err = r.db.transact(ctx, "note events as tried", func(tx *sql.Tx) error {
		tried, err := r.db.lock(ctx, tx, all)
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(slices.Clone(all), func(row Row) bool { before, got := tried[row.ID]; return before || !got })
		now := engine.Now()
		if err := changeRows(ctx, tx, fresh, "UPDATE user_interactions SET tried_at = ? WHERE ", timeText(now)); err != nil {
			return err
		}
		ready = upTo(slices.Clone(rows), func(row *stored) bool { before, got := tried[row.ID]; return got && before == (row.TriedAt != 0) })
		if numbers == nil {
			return nil
		}
		p.groups = grouped(ready, numbers)
		p.numbers = highest(p.groups)
		return r.db.noteGroups(ctx, tx, p.groups, numbers, now)
	})
	return ready, p, err
}

// mark writes the fate of a batch and lets its shards go. Where the lease's
// connection is lost, the marks are tried without it: they are true whichever relay has
// the shards now, and spare sending everything again. So they are where another
// transaction has locked a row meanwhile, which is left out then: it is published again.
// Only that a row was not tried is not said without the lease: the next relay may have.
func (r *Relay) mark(ctx context.Context, l *lease, w *rounds) error {
	all := w.marks()
	if all.none() {
		return l.end(false)
	}
	err := r.db.write(ctx, l.run, all)
	locked := err != nil && r.db.dialect.classify(err) == classLocked
	if end := l.end(err == nil); err == nil {
		err = end
	}
	if err == nil {
		return nil
	}
	all.untried, all.numbers = nil, nil
	left := 0
	again := r.db.transact(ctx, "mark events", func(tx *sql.Tx) error {
		some, err := r.db.free(ctx, tx, all)
		if err != nil {
			return err
		}
		left = len(all.sent) - len(some.sent)
		return r.db.write(ctx, tx, some)
	})
	if again != nil {
		r.Stats.Unmarked.Add(int64(len(all.sent)))
		return errors.Join(err, again)
	}
	r.Stats.Unmarked.Add(int64(left))
	what, hint := "database connection lost in the middle of a batch", "check that the database runs; the rows are published again, and the workers know repeats"
	if locked {
		what, hint = "events were published and could not be marked: another transaction has locked their rows",
			"see which transaction of the shop's stays open; the rows are published again once it has ended, and the workers know repeats"
	}
	r.log.Warn(what, slog.Any("error", r.db.fault("mark events", err)), slog.Int("rows", left), slog.String("hint", hint))
	return nil
}
