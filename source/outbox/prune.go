package outbox

import (
	"context"
	"database/sql"
	"slices"

	"keyfold/engine"
)

// Prune deletes the history before an instant: the sent rows that occurred before it,
// with their ids. First it raises the floor to it, so that an event that occurred
// before is refused from then on: keyfold could not tell whether it is a repeated one.
// Rows that were not sent stay, whatever their age. It may be stopped and run again.
func (d *Database) Prune(ctx context.Context, occurredBefore engine.Millis, options CleanupOptions) (deleted int64, err error) {
	old := " FROM user_interactions" + d.words.index("idx_processed") + " WHERE processed_to_queue = TRUE AND occurred_at < ?"
	limit := timeText(occurredBefore)
	if options.DryRun {
		return d.countOld(ctx, "SELECT COUNT(*)"+old, limit)
	}
	err = d.transact(ctx, "raise the floor of the history", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE keyfold_outbox_state SET history_floor = ? WHERE id = 1 AND (history_floor IS NULL OR history_floor < ?)", limit, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return d.inSteps(ctx, options, func(chunk int) (n int64, more bool, err error) {
		err = d.transact(ctx, "delete old events", func(tx *sql.Tx) error {
			n, err = d.deleteOld(ctx, tx, "SELECT id, user_id, COALESCE(message_id, ''), duplicate"+old+" ORDER BY occurred_at, id LIMIT ?"+d.words.rowLock, limit, chunk)
			return err
		})
		return n, n > 0, err
	})
}

// oldRow is a row to delete with its id.
type oldRow struct {
	newRow
	duplicate bool // its id is another row's
}

func (d *Database) deleteOld(ctx context.Context, tx *sql.Tx, query string, args ...any) (n int64, err error) {
	rows, err := collect(ctx, tx, func(s scanner) (row *oldRow, err error) {
		row = &oldRow{}
		var user userID
		err = s.Scan(&row.id, &user, &row.messageID, &row.duplicate)
		row.userID, row.digest = user.id, digestOf(row.messageID)
		return row, err
	}, query, args...)
	if err != nil {
		return 0, err
	}
	for rows := range slices.Chunk(rows, statementRows) {
		var ids []int64
		var known []*newRow
		for _, row := range rows {
			ids = append(ids, row.id)
			if row.messageID != "" && !row.duplicate {
				known = append(known, &row.newRow)
			}
		}
		deleted, err := change(ctx, tx, "DELETE FROM user_interactions WHERE id IN ("+list(len(ids))+")", anyOf(ids)...)
		if err != nil {
			return 0, err
		}
		n += deleted
		if len(known) == 0 {
			continue
		}
		condition, args := anyID(known)
		if _, err := tx.ExecContext(ctx, "DELETE FROM keyfold_event_ids WHERE "+condition, args...); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// HistoryStats tells how far the history reaches back.
type HistoryStats struct {
	Rows   int64         // of the history: sent events and those that wait
	Bodies int64         // sent rows with a body, which a cleanup would free
	IDs    int64         // that are known
	Oldest engine.Millis // when the oldest event occurred; 0 without any
	Newest engine.Millis
	Floor  engine.Millis // events that occurred before it are refused; 0: none are
}

// HistoryStats counts the history. It reads all rows.
func (d *Database) HistoryStats(ctx context.Context) (h HistoryStats, err error) {
	if h.Floor, err = d.Floor(ctx); err != nil {
		return h, err
	}
	for _, one := range []struct {
		query string
		n     *int64
	}{
		{"SELECT COUNT(*) FROM user_interactions WHERE duplicate = FALSE", &h.Rows},
		{"SELECT COUNT(*) FROM user_interactions WHERE processed_to_queue = TRUE AND body IS NOT NULL", &h.Bodies},
		{"SELECT COUNT(*) FROM keyfold_event_ids", &h.IDs},
	} {
		if *one.n, err = d.countOld(ctx, one.query); err != nil {
			return h, err
		}
	}
	if h.Oldest, err = d.endOfHistory(ctx, "MIN", ">"); err == nil {
		h.Newest, err = d.endOfHistory(ctx, "MAX", "<")
	}
	if err != nil {
		return h, d.fault("read the ends of the history", err)
	}
	return h, nil
}

// endOfHistory returns when the first or the last event occurred; 0 without any. It passes
// over a shop's rows of no time: a zero date, or whatever text SQLite has taken.
func (d *Database) endOfHistory(ctx context.Context, extreme, further string) (engine.Millis, error) {
	query := "SELECT " + extreme + "(occurred_at) FROM user_interactions WHERE occurred_at >= ? AND occurred_at <= ?"
	args := []any{"0001-01-01 00:00:00.000", "9999-12-31 23:59:59.999"}
	for behind, text := "", (sql.NullString{}); ; {
		if err := d.pool.QueryRowContext(ctx, query+behind, args...).Scan(&text); err != nil || !text.Valid {
			return 0, err
		}
		if at, err := parseTime(text.String); err == nil {
			return at, nil
		}
		behind = " AND " + d.words.asText("occurred_at") + " " + further + " ?"
		args = append(args[:2], text.String)
	}
}
