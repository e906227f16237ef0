package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"keyfold/engine"
)

// batch publishes one batch of whatever shards have something to send, and
// returns how many rows met their fate. The error says why nothing can be
// published now. ctx says whether to go on, work bounds what is under way.
func (r *Relay) batch(ctx, work context.Context) (done int, err error) {
	pending, err := r.db.pending(work)
	if err != nil {
		return 0, r.db.fault("look for events", err)
	}
	if len(pending) == 0 {
		r.trouble.pass() // or a fault would outlive its last row
		return 0, nil
	}
	held := r.held.waiting(time.Now())
	wanted := r.choose(pending, held)
	if len(wanted) == 0 {
		return 0, nil
	}
	result, err := r.publishShards(ctx, work, wanted, held, Filter{})
	if result.rows > 0 && len(pending) > len(wanted) {
		r.Wake() // there is work for another lane
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
func (r *Relay) publishShards(ctx, work context.Context, wanted []int, held map[int][]int32, filter Filter) (result, error) {
	l, err := r.db.dialect.lease(work, r.db.pool, wanted)
	if err != nil {
		return result{}, r.db.fault("lock shards", err)
	}
	if len(l.shards) == 0 {
		return result{}, l.end(false)
	}
	rows, err := r.fetch(work, l, held, filter)
	if err != nil {
		_ = l.end(false) // its connection failed
		return result{}, r.db.fault("read events", err)
	}
	w := newWaves(r, rows)
	w.run(ctx, work)
	r.Stats.Batches.Add(1)
	r.Stats.Held.Store(r.held.size())
	if err := r.mark(work, l, w); err != nil {
		return result{}, r.db.fault("mark events as sent", err)
	}
	if w.trouble == nil && len(w.sent) > 0 {
		r.trouble.pass()
	}
	return result{shards: len(l.shards), rows: len(rows), done: len(w.sent) + len(w.failures), sent: len(w.sent)}, w.trouble
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

// stored is a row to publish. fault is set where its body is no event.
type stored struct {
	Row
	fault error
}

// fetch reads the oldest rows of the leased shards, in the order of their ids.
func (r *Relay) fetch(ctx context.Context, l *lease, held map[int][]int32, filter Filter) ([]stored, error) {
	limit := max(1, r.config.BatchRows/len(l.shards))
	var (
		parts []string
		args  []any
	)
	for _, shard := range l.shards {
		query := "SELECT " + rowColumns + " FROM " + r.db.dialect.through("user_interactions", "idx_unsent") +
			" WHERE " + unsent + " AND shard = ?"
		args = append(args, shard)
		if users := held[shard]; len(users) > 0 {
			query += " AND user_id NOT IN (" + list(len(users)) + ")"
			args = append(args, anyOf(users)...)
		}
		query, args = filter.restrict(query, args)
		args = append(args, limit)
		parts = append(parts, r.db.dialect.part(query+" ORDER BY id LIMIT ?"))
	}
	var rows []stored
	err := each(ctx, l.run, func(s scanner) error {
		row, fault, err := scanRow(s)
		rows = append(rows, stored{row, fault})
		return err
	}, strings.Join(parts, " UNION ALL "), args...)
	slices.SortFunc(rows, func(a, b stored) int { return cmp.Compare(a.ID, b.ID) })
	return rows, err
}

// mark writes the fate of a batch and lets its shards go. Where the lease's
// connection is lost, the marks are tried without it: they are true whoever has
// the shards now, and spare sending everything again.
func (r *Relay) mark(ctx context.Context, l *lease, w *waves) error {
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
	again := w.write(ctx, r.db.pool)
	if again != nil {
		r.Stats.Unmarked.Add(int64(len(w.sent)))
		return errors.Join(err, again)
	}
	r.log.Warn("a relay's database connection was lost in the middle of a batch", slog.Any("error", r.db.fault("mark events", err)))
	return nil
}

// write marks rows. It may be run again.
func (w *waves) write(ctx context.Context, run runner) error {
	now := timeText(engine.Now())
	for ids := range slices.Chunk(w.sent, statementRows) {
		args := append([]any{now}, anyOf(ids)...)
		if _, err := run.ExecContext(ctx, "UPDATE user_interactions SET processed_to_queue = 1, sent_at = ?, failed_at = NULL "+
			"WHERE id IN ("+list(len(ids))+")", args...); err != nil {
			return err
		}
	}
	for _, f := range w.failures {
		failedAt := any(nil)
		if f.verdict == setAside {
			failedAt = now
		}
		if _, err := run.ExecContext(ctx, "UPDATE user_interactions SET attempts = ?, last_error = ?, failed_at = ? "+
			"WHERE id = ? AND processed_to_queue = 0", f.attempts, f.text(), failedAt, f.id); err != nil {
			return err
		}
	}
	return nil
}
