package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

// CleanupOptions say how [Database.Cleanup] and [Database.Prune] go about it.
type CleanupOptions struct {
	Chunk    int              // rows per transaction; default 1000
	Pause    time.Duration    // between two of them, for others' sake; default 10 ms
	Progress func(done int64) // called after each; may be nil
	DryRun   bool             // count the rows and change none
	Limit    int64            // of rows to change; 0: none
}

// Cleanup frees what publishing needed of the rows that were sent before an instant, in
// chunks, and returns how many: their bodies and headers. The rows stay as history, and
// their ids stay known. It may be stopped and run again.
//
// It goes through the rows by their ids, from the first that an earlier one had to leave,
// up to the first that was stored after the instant. (An index by sent_at would cost the
// relay a tenth of its rate.) A row that says that it is of the future ends nothing. Rows that were set aside are passed for good: one that is
// retried later keeps its body.
func (d *Database) Cleanup(ctx context.Context, sentBefore engine.Millis, options CleanupOptions) (cleaned int64, err error) {
	c := cleanup{db: d, limit: sentBefore, now: engine.Now(), dryRun: options.DryRun}
	err = d.pool.QueryRowContext(ctx, "SELECT cleaned_id FROM keyfold_outbox_state WHERE id = 2").Scan(&c.passed)
	if err != nil {
		return 0, d.fault("read how far a cleanup has come", err)
	}
	c.at = c.passed
	return d.inSteps(ctx, options, func(chunk int) (int64, bool, error) { return c.step(ctx, chunk) })
}

// cleanup is one run.
type cleanup struct {
	db     *Database
	limit  engine.Millis
	now    engine.Millis
	dryRun bool
	ended  bool  // at a row that was stored after the limit
	at     int64 // the last row that was looked at
	passed int64 // the last row such that no cleanup has to look at it or at those before it
	left   bool  // a row that a later cleanup has to look at
}

// step looks at a chunk of rows and frees those that were sent in time.
func (c *cleanup) step(ctx context.Context, chunk int) (n int64, more bool, err error) {
	rows, err := collect(ctx, c.db.pool, scanSentRow, "SELECT id, created_at, COALESCE(processed_to_queue, FALSE), sent_at, failed_at IS NOT NULL, body IS NOT NULL OR headers IS NOT NULL FROM user_interactions"+c.db.words.byID+" WHERE id > ? ORDER BY id LIMIT ?", c.at, chunk)
	if err != nil {
		return 0, false, c.db.fault("look for old events", err)
	}
	ids := c.pick(rows)
	more = len(rows) == chunk && !c.ended
	if c.dryRun {
		return int64(len(ids)), more, nil
	}
	n, err = c.free(ctx, ids)
	return n, more, err
}

// sentRow is what a cleanup knows of a row.
type sentRow struct {
	id       int64
	storedAt engine.Millis
	sent     bool
	sentAt   engine.Millis // 0: not, or by another program
	failed   bool
	full     bool // has something to free
}

func scanSentRow(s scanner) (row sentRow, err error) {
	var storedAt, sentAt sql.NullString
	if err := s.Scan(&row.id, &storedAt, &row.sent, &sentAt, &row.failed, &row.full); err != nil {
		return row, err
	}
	row.storedAt, _ = parseTime(storedAt.String) // what is no time is of long ago
	row.sentAt, _ = parseTime(sentAt.String)
	return row, nil
}

// pick returns the rows to free, up to the first that was stored after the limit.
func (c *cleanup) pick(rows []sentRow) (ids []int64) {
	for _, row := range rows {
		if c.ended = row.storedAt >= c.limit && row.storedAt <= c.now; c.ended {
			break
		}
		c.at = row.id
		switch due := row.sent && row.sentAt < c.limit; {
		case due && row.full && row.sentAt != 0:
			ids = append(ids, row.id)
		case !due && !row.failed:
			c.left = true
		}
		if !c.left {
			c.passed = row.id
		}
	}
	return ids
}

// free empties rows and notes how far the cleanup has come, in one transaction.
func (c *cleanup) free(ctx context.Context, ids []int64) (n int64, err error) {
	err = c.db.transact(ctx, "free old events", func(tx *sql.Tx) error {
		n = 0
		if len(ids) > 0 {
			n, err = change(ctx, tx, "UPDATE user_interactions SET body = NULL, headers = NULL WHERE id IN ("+list(len(ids))+
				") AND processed_to_queue = TRUE AND sent_at < ?", append(anyOf(ids), timeText(c.limit))...)
			if err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE keyfold_outbox_state SET cleaned_id = ? WHERE id = 2 AND cleaned_id < ?", c.passed, c.passed)
		return err
	})
	return n, err
}

func (d *Database) countOld(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = d.pool.QueryRowContext(ctx, query, args...).Scan(&n)
	if err != nil {
		return 0, d.fault("count old events", err)
	}
	return n, nil
}

// inSteps repeats step with pauses until there are no more rows. A step may change none
// of the rows that it looks at.
func (d *Database) inSteps(ctx context.Context, options CleanupOptions, step func(chunk int) (n int64, more bool, err error)) (total int64, err error) {
	chunk, pause := cmp.Or(options.Chunk, 1000), cmp.Or(options.Pause, 10*time.Millisecond)
	for {
		if options.Limit > 0 {
			chunk = int(min(int64(chunk), options.Limit-total))
		}
		if chunk == 0 {
			return total, nil
		}
		n, more, err := step(chunk)
		if err != nil {
			return total, err
		}
		if total += n; n > 0 && options.Progress != nil {
			options.Progress(total)
		}
		if !more {
			return total, nil
		}
		if options.DryRun {
			continue
		}
		if !backoff.Sleep(ctx, pause) {
			return total, ctx.Err()
		}
	}
}
