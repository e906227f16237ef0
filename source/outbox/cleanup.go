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
func (d *Database) Cleanup(ctx context.Context, sentBefore engine.Millis, options CleanupOptions) (cleaned int64, err error) {
	sent := " FROM " + d.dialect.withIndex("user_interactions", "idx_sent") + " WHERE sent_at < ? AND processed_to_queue = TRUE"
	if options.DryRun {
		return d.countOld(ctx, "SELECT COUNT(*)"+sent, timeText(sentBefore))
	}
	return d.inSteps(ctx, options, func(chunk int) (n int64, more bool, err error) {
		ids, err := collect(ctx, d.pool, column[int64], "SELECT id"+sent+" ORDER BY sent_at, id LIMIT ?", timeText(sentBefore), chunk)
		if err != nil {
			return 0, false, d.fault("look for old events", err)
		}
		if len(ids) == 0 {
			return 0, false, nil
		}
		err = d.transact(ctx, "free old events", func(tx *sql.Tx) error {
			// A row without sent_at is out of the range of idx_sent: it is not read again.
			n, err = change(ctx, tx, "UPDATE user_interactions SET body = NULL, headers = NULL, sent_at = NULL WHERE id IN ("+list(len(ids))+
				") AND processed_to_queue = TRUE AND sent_at < ?", append(anyOf(ids), timeText(sentBefore))...)
			return err
		})
		return n, true, err
	})
}

func (d *Database) countOld(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = d.pool.QueryRowContext(ctx, query, args...).Scan(&n)
	if err != nil {
		return 0, d.fault("count old events", err)
	}
	return n, nil
}

// inSteps repeats step with pauses until there are no more rows. A step may change none
// of the rows that it found, where another cleanup runs beside it.
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
		if err != nil || !more {
			return total, err
		}
		total += n
		if options.Progress != nil {
			options.Progress(total)
		}
		if !backoff.Sleep(ctx, pause) {
			return total, ctx.Err()
		}
	}
}
