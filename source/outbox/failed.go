package outbox

import (
	"context"
	"database/sql"
	"regexp"
	"slices"

	"keyfold/engine"
)

// failed is the condition of a row that was set aside.
const failed = "processed_to_queue = FALSE AND failed_at IS NOT NULL"

// FailedRow is a row that was set aside. A field is zero where its column has no such value,
// as in a shop's own table.
type FailedRow struct {
	ID        int64         `json:"id"`
	UserID    int64         `json:"user_id"`
	EventType string        `json:"event_type"`
	MessageID string        `json:"message_id"`
	Attempts  int           `json:"attempts"`
	StoredAt  engine.Millis `json:"stored_at"`
	FailedAt  engine.Millis `json:"failed_at"`
	Reason    string        `json:"reason"` // as of dead letters; "" where none was stored
	Error     string        `json:"error"`
	Body      []byte        `json:"-"` // nil of a shop's row that no relay could complete
}

// storedReason is how last_error begins where the reason is known.
var storedReason = regexp.MustCompile(`^\[([a-z0-9_]+)\] `)

// FailedIDs returns the ids of all rows that were set aside, in their order. An index holds
// them in another one, so that they are read at once and not in pages.
func (d *Database) FailedIDs(ctx context.Context) ([]int64, error) {
	ids, err := collect(ctx, d.pool, column[int64], "SELECT id FROM user_interactions"+d.words.index("idx_unsent")+" WHERE "+failed)
	if err != nil {
		return nil, d.fault("look for failed events", err)
	}
	slices.Sort(ids)
	return ids, nil
}

// Failed returns those of the rows that are set aside, in the order of their ids.
func (d *Database) Failed(ctx context.Context, ids ...int64) ([]FailedRow, error) {
	var all []FailedRow
	for ids := range slices.Chunk(ids, statementRows) {
		rows, err := collect(ctx, d.pool, scanFailed, "SELECT id, user_id, event_type, COALESCE(message_id, ''), attempts, created_at, failed_at, last_error, body FROM user_interactions"+d.words.byID+" WHERE "+failed+" AND id IN ("+list(len(ids))+") ORDER BY id", anyOf(ids)...)
		if err != nil {
			return nil, d.fault("list failed events", err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

func scanFailed(s scanner) (row FailedRow, err error) {
	var user userID
	var kind, storedAt, failedAt, text sql.NullString
	err = s.Scan(&row.ID, &user, &kind, &row.MessageID, &row.Attempts, &storedAt, &failedAt, &text, &row.Body)
	row.StoredAt, _ = parseTime(storedAt.String) // a zero date, or what is no time, is none
	row.FailedAt, _ = parseTime(failedAt.String)
	row.UserID, row.EventType, row.Error = user.wide(), kind.String, text.String
	if found := storedReason.FindStringSubmatch(row.Error); found != nil {
		row.Reason, row.Error = found[1], row.Error[len(found[0]):]
	}
	return row, err
}

// RetryFailed gives rows that were set aside back to the relay, with no attempt
// behind them, and returns how many; all of them where no id is named. They are
// published after whatever of their users was published meanwhile.
func (d *Database) RetryFailed(ctx context.Context, ids ...int64) (int64, error) {
	lists := [][]int64{nil}
	if len(ids) > 0 {
		lists = slices.Collect(slices.Chunk(ids, statementRows))
	}
	return d.changeFailed(ctx, "retry failed events", "UPDATE user_interactions SET failed_at = NULL, attempts = 0, last_error = NULL", lists)
}

// RemoveFailed deletes rows that were set aside, and returns how many. Their ids stay
// known: the same event is a duplicate when it comes again.
func (d *Database) RemoveFailed(ctx context.Context, ids ...int64) (int64, error) {
	return d.changeFailed(ctx, "remove failed events", "DELETE FROM user_interactions", slices.Collect(slices.Chunk(ids, statementRows)))
}

// changeFailed changes the rows of each list of ids, where an empty list means all. A list
// is a transaction: an error leaves the lists before it changed.
func (d *Database) changeFailed(ctx context.Context, doing, statement string, lists [][]int64) (changed int64, err error) {
	for _, ids := range lists {
		query := statement + " WHERE " + failed
		if len(ids) > 0 {
			query += " AND id IN (" + list(len(ids)) + ")"
		}
		var n int64
		err := d.transact(ctx, doing, func(tx *sql.Tx) (err error) {
			n, err = change(ctx, tx, query, anyOf(ids)...)
			return err
		})
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}
