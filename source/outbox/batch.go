package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"keyfold/engine"
)

// batch publishes one batch of whatever shards have something to send, and
// returns how many rows met their fate. The error says why nothing can be
// published now. ctx says whether to go on, work bounds what is under way.
func (r *Relay) batch(ctx, work context.Context) (done int, err error) {
	heads, floor, err := r.look(work)
	if err != nil {
		return 0, r.db.fault("look for events", err)
	}
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
	result, err := r.publishShards(ctx, work, wanted, query{held: held, floor: floor})
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
	l, err := r.lease(work, wanted)
	if err != nil {
		return result{}, r.db.fault("lock shards", err)
	}
	if len(l.shards) == 0 {
		return result{}, l.end(false)
	}
	began := time.Now()
	rows, err := r.fetch(work, l, find)
	r.Stats.fetch.Observe(time.Since(began))
	if err != nil {
		_ = l.end(false) // its connection failed
		return result{}, r.db.fault("read events", err)
	}
	read := len(rows)
	rows, resolved, there, err := r.complete(work, l.run, rows)
	if err != nil {
		_ = l.end(false)
		return result{}, r.db.fault("complete events", err)
	}
	if there {
		there, err = r.try(work, rows)
	}
	if err != nil || !there {
		err = errors.Join(err, l.end(false))
	}
	if err != nil {
		return result{}, r.db.fault("note events as tried", err)
	}
	if !there {
		return result{shards: len(l.shards), rows: read, done: resolved}, nil // they are read again
	}
	w := newRounds(r, rows)
	w.run(ctx, work)
	r.Stats.Batches.Add(1)
	r.Stats.Held.Store(r.paused.size())
	began = time.Now()
	err = r.mark(work, l, w)
	r.Stats.mark.Observe(time.Since(began))
	if err != nil {
		return result{}, r.db.fault("mark events as sent", err)
	}
	if w.stop == nil && len(w.sent) > 0 {
		r.noteSuccess()
	}
	return result{shards: len(l.shards), rows: read, done: resolved + len(w.sent) + len(w.failures), sent: len(w.sent)}, w.stop
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

// query says which rows a batch reads, and how.
type query struct {
	held   map[int][]int32 // users left out, by shard
	filter Filter
	floor  int64 // of a quick look; 0: of a full one
}

// fetch reads rows of the leased shards, in the order of their ids: the oldest
// ones, but of one user at most half of a shard's share, so that the others of
// the shard do not wait for the end of that user's backlog.
func (r *Relay) fetch(ctx context.Context, l *lease, find query) (all []stored, err error) {
	if find.floor > 0 {
		return r.fetchNew(ctx, l, find)
	}
	shards := l.shards
	if find.filter.backfill {
		for _, shard := range l.shards {
			shards = append(slices.Clip(shards), shard+backfillShards)
		}
	}
	share := max(1, r.config.BatchRows/len(shards))
	wants := make([]want, len(shards))
	for i, shard := range shards {
		wants[i] = want{shard: shard, rows: share, without: slices.Clone(find.held[shard%Shards])}
	}
	users := map[int32]int{}
	for range maxBusyUsers {
		rows, err := r.fetchOnce(ctx, l, wants, find.filter)
		if err != nil {
			return nil, err
		}
		wants = narrow(wants, rows, users, max(1, share/2), func(row stored) { all = append(all, row) })
		if len(wants) == 0 {
			break
		}
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// maxBusyUsers is how many users with more rows than one may have in a batch a
// fetch looks past.
const maxBusyUsers = 4

// want is what a fetch still wants of a shard.
type want struct {
	shard   int
	rows    int
	after   int64   // the last id read
	without []int32 // users
}

// narrow keeps the rows that one fetch brought, of each user so many at most, and
// returns what to fetch instead of those left out.
func narrow(wants []want, rows map[int][]stored, users map[int32]int, most int, keep func(stored)) []want {
	var more []want
	for _, w := range wants {
		got := rows[w.shard]
		full := len(got) == w.rows // or there is no more
		for _, row := range got {
			user := row.Event.UserID
			w.after = row.ID
			if users[user] == most {
				w.without = append(w.without, user)
			}
			if users[user]++; users[user] <= most {
				w.rows--
				keep(row)
			}
		}
		if full && w.rows > 0 {
			more = append(more, w)
		}
	}
	return more
}

// fetchOnce reads the oldest rows that are wanted, by shard. The ids behind which
// it begins are compared as sums, which keeps InnoDB from reading a range of the
// index: at a range's end it would go on through all entries that are marked as
// deleted and not yet purged, those of other shards too.
func (r *Relay) fetchOnce(ctx context.Context, l *lease, wants []want, filter Filter) (map[int][]stored, error) {
	var (
		parts []string
		args  []any
	)
	for _, w := range wants {
		query := "SELECT " + rowColumns + ", shard FROM " + r.db.dialect.withIndex("user_interactions", "idx_unsent") +
			" WHERE " + unsent + " AND shard = ? AND id + 0 > ?"
		args = append(args, w.shard, w.after)
		if len(w.without) > 0 {
			query += " AND user_id NOT IN (" + list(len(w.without)) + ")"
			args = append(args, anyOf(w.without)...)
		}
		query, args = filter.restrict(query, args)
		args = append(args, w.rows)
		parts = append(parts, r.db.dialect.parenthesised(query+" ORDER BY "+r.db.dialect.oldestFirst()+" LIMIT ?"))
	}
	rows := map[int][]stored{}
	err := each(ctx, l.run, func(s scanner) error {
		var shard int
		row, err := scanStored(extended{s, []any{&shard}})
		rows[shard] = append(rows[shard], row)
		return err
	}, strings.Join(parts, " UNION ALL "), args...)
	for _, shard := range rows {
		slices.SortFunc(shard, func(a, b stored) int { return cmp.Compare(a.ID, b.ID) })
	}
	return rows, err
}

// try notes of the rows that were not tried before that they are now, durably:
// whatever becomes of this process, a later copy of theirs says since when there
// may be an earlier one. It reports whether the rows are all there.
//
// They need not be: a server shows a transaction to others before it is durable,
// and one that is killed in between takes it back and gives its ids away again.
// The server writes its transactions in their order, so that this one, once it is
// durable, vouches for the rows.
func (r *Relay) try(ctx context.Context, rows []stored) (there bool, err error) {
	fresh := make([]Row, 0, len(rows))
	for i := range rows {
		if rows[i].TriedAt == 0 {
			fresh = append(fresh, rows[i].Row)
		}
	}
	noted, err := changeRows(ctx, r.db.pool, fresh, "UPDATE user_interactions SET tried_at = ? WHERE tried_at IS NULL AND ", timeText(engine.Now()))
	return noted == int64(len(fresh)), err
}

// mark writes the fate of a batch and lets its shards go. Where the lease's
// connection is lost, the marks are tried without it: they are true whichever relay has
// the shards now, and spare sending everything again.
func (r *Relay) mark(ctx context.Context, l *lease, w *rounds) error {
	if !w.anything() {
		return l.end(false)
	}
	err := w.write(ctx, l.run)
	if end := l.end(err == nil); err == nil {
		err = end
	}
	if err == nil {
		return nil
	}
	again := r.db.transact(ctx, "mark events", func(tx *sql.Tx) error { return w.write(ctx, tx) })
	if again != nil {
		r.Stats.Unmarked.Add(int64(len(w.sent)))
		return errors.Join(err, again)
	}
	r.log.Warn("database connection lost in the middle of a batch", slog.Any("error", r.db.fault("mark events", err)),
		slog.String("hint", "see that the database runs; the rows are published again, and the workers know repeats"))
	return nil
}

// write marks rows. It may be run again.
func (w *rounds) write(ctx context.Context, run runner) error {
	now := timeText(engine.Now())
	if _, err := changeRows(ctx, run, w.sent, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = ?, failed_at = NULL WHERE ", now); err != nil {
		return err
	}
	if _, err := changeRows(ctx, run, w.untried(), "UPDATE user_interactions SET tried_at = NULL WHERE processed_to_queue = FALSE AND "); err != nil {
		return err
	}
	for _, f := range w.failures {
		failedAt := any(nil)
		if f.verdict == quarantined {
			failedAt = now
		}
		if _, err := run.ExecContext(ctx, "UPDATE user_interactions SET attempts = ?, last_error = ?, failed_at = ? "+
			"WHERE id = ? AND message_id = ? AND processed_to_queue = FALSE", f.attempts, f.text(), failedAt, f.id, f.messageID); err != nil {
			return err
		}
	}
	return nil
}
