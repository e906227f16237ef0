package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// messengerRow is a row of messenger_outbox.
type messengerRow struct {
	id        int64
	body      []byte
	delivered bool
}

// copy takes the rows of messenger_outbox into user_interactions, in the order of their
// ids. A row is copied once: its event's id is registered in the same transaction, so
// that a run which begins anew finds it a duplicate. The position only saves time, and is
// set back at the end: the next run finds also what was committed late.
func (a *adopting) copy(ctx context.Context, conn *sql.Conn) error {
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM messenger_outbox").Scan(&a.done.Before); err != nil {
		return engine.ConfigurationError(reasonSchema, errors.Join(fmt.Errorf("messenger_outbox cannot be read: name its database in %s, or grant the user SELECT", urlSetting), err))
	}
	if err := a.begin(ctx, conn); err != nil {
		return a.db.fault("take over", err)
	}
	var after int64
	if err := conn.QueryRowContext(ctx, "SELECT position FROM keyfold_adopted WHERE table_name = ?", a.done.Table).Scan(&after); err != nil {
		return a.db.fault("read the position", err)
	}
	for {
		var rows []messengerRow
		var chunk Adopted
		err := a.db.transact(ctx, "copy rows", func(tx *sql.Tx) (err error) {
			chunk = Adopted{}
			rows, err = collect(ctx, tx, func(s scanner) (row messengerRow, err error) {
				err = s.Scan(&row.id, &row.body, &row.delivered)
				return row, err
			}, "SELECT id, body, CASE WHEN delivered_at IS NULL THEN 0 ELSE 1 END FROM messenger_outbox WHERE id > ? ORDER BY id LIMIT ?", after, statementRows)
			if err != nil || len(rows) == 0 {
				return err
			}
			if err := a.copyChunk(ctx, tx, rows, &chunk); err != nil {
				return err
			}
			return a.move(ctx, tx, rows[len(rows)-1].id)
		})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		after = rows[len(rows)-1].id
		a.count(int64(len(rows)), &chunk)
	}
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM messenger_outbox").Scan(&a.done.After); err != nil {
		return a.db.fault("count the rows", err)
	}
	return a.move(ctx, conn, 0)
}

func (a *adopting) move(ctx context.Context, run runner, position int64) error {
	_, err := run.ExecContext(ctx, "UPDATE keyfold_adopted SET position = ? WHERE table_name = ?", position, a.done.Table)
	return err
}

func (a *adopting) copyChunk(ctx context.Context, tx *sql.Tx, from []messengerRow, chunk *Adopted) error {
	var rows []*newRow
	delivered, seen := map[*newRow]bool{}, map[key]bool{}
	for _, m := range from {
		event, err := profile.ParseEvent(m.body, farFuture)
		var row newRow
		if err == nil {
			row, err = rowOf(&profile.Entry{Event: event, Body: m.body}, engine.Now())
		}
		switch {
		case err != nil:
			chunk.NoEvents++
		case seen[row.key()]:
			chunk.Duplicates++
		default:
			seen[row.key()] = true
			rows = append(rows, &row)
			delivered[&row] = m.delivered
		}
	}
	if err := a.db.insert(ctx, tx, rows); err != nil {
		return err
	}
	var history, waiting []*newRow
	for _, row := range rows {
		switch {
		case row.fault != nil:
			chunk.NoEvents++
		case !row.fresh:
			chunk.Duplicates++
		case delivered[row]:
			chunk.History++
			history = append(history, row)
		default:
			waiting = append(waiting, row)
		}
	}
	if err := markCopied(ctx, tx, history, "processed_to_queue = TRUE, body = NULL"); err != nil || !a.options.Backfill {
		return err
	}
	return markCopied(ctx, tx, waiting, fmt.Sprint("shard = shard + ", backfillShards))
}

// markCopied changes rows that tx has inserted, by their ids.
func markCopied(ctx context.Context, tx *sql.Tx, rows []*newRow, how string) error {
	for rows := range slices.Chunk(rows, completeRows) {
		ids, err := insertedIDs(ctx, tx, rows)
		if err != nil {
			return err
		}
		changed, err := change(ctx, tx, "UPDATE user_interactions SET "+how+" WHERE id IN ("+list(len(ids))+")", anyOf(ids)...)
		if err == nil && changed != int64(len(rows)) {
			err = fmt.Errorf("%d of %d copied rows of messenger_outbox were changed: look for a trigger of user_interactions that changes rows", changed, len(rows))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// insertedIDs finds the rows that tx has inserted. A shop's column may keep no
// milliseconds of occurred_at, by which an index finds a user's row.
func insertedIDs(ctx context.Context, tx *sql.Tx, rows []*newRow) ([]int64, error) {
	const one = "(user_id = ? AND occurred_at BETWEEN ? AND ? AND message_id = ?)"
	var args []any
	for _, row := range rows {
		at, err := parseTime(row.occurred)
		if err != nil {
			return nil, err
		}
		args = append(args, row.userID, timeText(at-1000), timeText(at+1000), row.messageID)
	}
	ids, err := collect(ctx, tx, column[int64], "SELECT id FROM user_interactions WHERE registered = TRUE AND ("+strings.Repeat(one+" OR ", len(rows)-1)+one+")", args...)
	if err == nil && len(ids) != len(rows) {
		err = fmt.Errorf("%d of %d copied rows of messenger_outbox are found again: look for a trigger of user_interactions that changes rows, "+
			"and for the type of occurred_at, which keeps seconds at least", len(ids), len(rows))
	}
	return ids, err
}
