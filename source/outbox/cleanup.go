package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

// CleanupOptions say how [Database.Cleanup] goes about it.
type CleanupOptions struct {
	Chunk    int                 // rows per transaction; default 1000
	Pause    time.Duration       // between two of them, for others' sake; default 10 ms
	Progress func(deleted int64) // called after each; may be nil
	DryRun   bool                // count the rows and delete none
}

// Cleanup deletes the rows that were sent before an instant, in chunks, and
// returns how many. Their ids stay known: an event that is added again is still
// a duplicate. Rows that were not sent stay, whatever their age. It may be
// stopped and run again.
func (d *Database) Cleanup(ctx context.Context, sentBefore engine.Millis, options CleanupOptions) (deleted int64, err error) {
	chunk := cmp.Or(options.Chunk, 1000)
	pause := cmp.Or(options.Pause, 10*time.Millisecond)
	after := chunkEnd{occurred: timeText(engine.Earliest)}
	for {
		ids, end, err := d.cleanable(ctx, sentBefore, after, chunk)
		if err != nil {
			return deleted, d.fault("look for old events", err)
		}
		n := int64(len(ids))
		if n > 0 && !options.DryRun {
			if n, err = d.deleteSent(ctx, ids); err != nil {
				return deleted, err
			}
		}
		if deleted += n; n > 0 && options.Progress != nil {
			options.Progress(deleted)
		}
		if end == after {
			return deleted, nil
		}
		after = end
		if options.DryRun {
			continue
		}
		if !backoff.Sleep(ctx, pause) {
			return deleted, ctx.Err()
		}
	}
}

// chunkEnd is the last row a chunk looked at, in the order of idx_processed.
type chunkEnd struct {
	occurred string
	id       int64
}

// cleanable looks at so many sent rows that occurred after a chunk's end, and
// returns those that were sent in time and the new end. Rows are found by when
// they occurred, for which there is an index; what was sent before an instant
// occurred before it too, give or take the clocks that the parser allows for.
func (d *Database) cleanable(ctx context.Context, sentBefore engine.Millis, after chunkEnd, chunk int) (ids []int64, end chunkEnd, err error) {
	end = after
	limit := timeText(sentBefore)
	err = each(ctx, d.pool, func(s scanner) error {
		var sentAt sql.NullString
		if err := s.Scan(&end.id, &end.occurred, &sentAt); err != nil {
			return err
		}
		if sentAt.Valid && sentAt.String < limit {
			ids = append(ids, end.id)
		}
		return nil
	}, "SELECT id, occurred_at, sent_at FROM "+d.dialect.withIndex("user_interactions", "idx_processed")+
		" WHERE processed_to_queue = 1 AND occurred_at >= ? AND (occurred_at > ? OR id > ?) AND occurred_at < ?"+
		" ORDER BY occurred_at, id LIMIT ?",
		after.occurred, after.occurred, after.id, timeText(sentBefore+engine.MaxFutureMillis), chunk)
	return ids, end, err
}

// deleteSent deletes rows and keeps their ids, in one transaction.
func (d *Database) deleteSent(ctx context.Context, ids []int64) (n int64, err error) {
	err = d.transact(ctx, "delete old events", func(tx *sql.Tx) error {
		n = 0
		for ids := range slices.Chunk(ids, statementRows) {
			deleted, err := deleteRows(ctx, tx, ids)
			if err != nil {
				return err
			}
			n += deleted
		}
		return nil
	})
	return n, err
}

func deleteRows(ctx context.Context, tx *sql.Tx, ids []int64) (int64, error) {
	sent := " FROM user_interactions WHERE processed_to_queue = 1 AND id IN (" + list(len(ids)) + ")"
	keys, err := collect(ctx, tx, scanKey, "SELECT user_id, message_id"+sent, anyOf(ids)...)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	args := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, k.user, digestOf(k.id))
	}
	_, err = tx.ExecContext(ctx, "REPLACE INTO keyfold_cleaned_ids (user_id, digest) VALUES "+
		strings.Repeat("(?, ?), ", len(keys)-1)+"(?, ?)", args...)
	if err != nil {
		return 0, err
	}
	return change(ctx, tx, "DELETE"+sent, anyOf(ids)...)
}
