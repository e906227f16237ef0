package outbox

import (
	"context"
	"database/sql"

	"keyfold/engine"
)

// failed is the condition of a row that was set aside.
const failed = "processed_to_queue = FALSE AND failed_at IS NOT NULL"

// FailedRow is a row that was set aside.
type FailedRow struct {
	ID        int64         `json:"id"`
	UserID    int64         `json:"user_id"`
	EventType string        `json:"event_type"`
	MessageID string        `json:"message_id"`
	Attempts  int           `json:"attempts"`
	StoredAt  engine.Millis `json:"stored_at"`
	FailedAt  engine.Millis `json:"failed_at"`
	Error     string        `json:"error"`
	Body      []byte        `json:"-"` // nil of a shop's row that no relay could complete
}

// Failed returns up to limit rows that were set aside, in the order of their
// ids, from the one after the id given.
func (d *Database) Failed(ctx context.Context, after int64, limit int) ([]FailedRow, error) {
	var rows []FailedRow
	err := each(ctx, d.pool, func(s scanner) error {
		var (
			row                FailedRow
			user               userID
			storedAt, failedAt string
			text               sql.NullString
		)
		err := s.Scan(&row.ID, &user, &row.EventType, &row.MessageID, &row.Attempts, &storedAt, &failedAt, &text, &row.Body)
		if err != nil {
			return err
		}
		row.UserID, row.Error = user.wide(), text.String
		if row.StoredAt, err = parseTime(storedAt); err != nil {
			return err
		}
		row.FailedAt, err = parseTime(failedAt)
		rows = append(rows, row)
		return err
	}, "SELECT id, user_id, event_type, COALESCE(message_id, ''), attempts, created_at, failed_at, last_error, body FROM "+
		d.dialect.withIndex("user_interactions", "idx_unsent")+" WHERE "+failed+" AND id > ? ORDER BY id LIMIT ?", after, limit)
	if err != nil {
		return nil, d.fault("list failed events", err)
	}
	return rows, nil
}

// RetryFailed gives rows that were set aside back to the relay, with no attempt
// behind them, and returns how many; all of them where no id is named. They are
// published after whatever of their users was published meanwhile.
func (d *Database) RetryFailed(ctx context.Context, ids ...int64) (n int64, err error) {
	query := "UPDATE user_interactions SET failed_at = NULL, attempts = 0, last_error = NULL WHERE " + failed
	if len(ids) > 0 {
		query += " AND id IN (" + list(len(ids)) + ")"
	}
	err = d.transact(ctx, "retry failed events", func(tx *sql.Tx) error {
		n, err = change(ctx, tx, query, anyOf(ids)...)
		return err
	})
	return n, err
}

// RemoveFailed deletes rows that were set aside, and returns how many. Their ids stay
// known: the same event is a duplicate when it comes again.
func (d *Database) RemoveFailed(ctx context.Context, ids ...int64) (n int64, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	err = d.transact(ctx, "remove failed events", func(tx *sql.Tx) error {
		n, err = change(ctx, tx, "DELETE FROM user_interactions WHERE "+failed+" AND id IN ("+list(len(ids))+")", anyOf(ids)...)
		return err
	})
	return n, err
}
