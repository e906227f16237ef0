package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"keyfold/engine"
)

// register notes the ids of rows whose keys differ, and returns the rows whose ids were
// unknown, in their order. The note is part of tx: where it is taken back, so are the
// ids. A transaction that notes the same id waits for tx.
//
// It tries all ids in one statement, which nearly always succeeds, and leaves the known
// ones out where one was known. (INSERT IGNORE would not tell which it found.)
func (d *Database) register(ctx context.Context, tx *sql.Tx, rows []*newRow) (unknown []*newRow, err error) {
	unknown = rows
	for range maxCollisions {
		if len(unknown) == 0 {
			return nil, nil
		}
		if err = d.dialect.try(ctx, tx, func() error { return insertIDs(ctx, tx, unknown) }); err == nil || d.dialect.classify(err) != classDuplicate {
			return unknown, err
		}
		var known map[key]bool
		if known, err = registered(ctx, tx, unknown); err != nil {
			return nil, err
		}
		unknown = slices.DeleteFunc(slices.Clone(unknown), func(row *newRow) bool { return known[row.idKey()] })
	}
	return nil, err
}

// insertIDs goes by the order of the primary key, so that two transactions seldom wait
// for each other.
func insertIDs(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	rows = slices.SortedFunc(slices.Values(rows), func(a, b *newRow) int {
		return cmp.Or(cmp.Compare(a.userID, b.userID), slices.Compare(a.digest, b.digest))
	})
	args := make([]any, 0, 2*len(rows))
	for _, row := range rows {
		args = append(args, row.userID, row.digest)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO keyfold_event_ids (user_id, digest) VALUES "+strings.Repeat("(?, ?), ", len(rows)-1)+"(?, ?)", args...)
	return err
}

// idKey names a row in keyfold_event_ids.
func (r *newRow) idKey() key { return key{r.userID, string(r.digest)} }

// registered returns which of the rows' ids are known.
func registered(ctx context.Context, tx *sql.Tx, rows []*newRow) (map[key]bool, error) {
	condition, args := anyID(rows)
	keys, err := collect(ctx, tx, scanKey, "SELECT user_id, digest FROM keyfold_event_ids WHERE "+condition, args...)
	known := map[key]bool{}
	for _, k := range keys {
		known[k] = true
	}
	return known, err
}

// anyID is the condition of the ids of these rows. It is written out, because not every
// server finds row values by an index.
func anyID(rows []*newRow) (condition string, args []any) {
	const one = "(user_id = ? AND digest = ?)"
	for _, row := range rows {
		args = append(args, row.userID, row.digest)
	}
	return strings.Repeat(one+" OR ", len(rows)-1) + one, args
}

// Floor returns the instant before which the history was pruned; 0 where it was not.
func (d *Database) Floor(ctx context.Context) (engine.Millis, error) {
	floor, err := floorOf(ctx, d.pool, "")
	if err != nil {
		return 0, d.fault("read the floor of the history", err)
	}
	return floor, nil
}

func floorOf(ctx context.Context, run runner, lock string) (engine.Millis, error) {
	texts, err := collect(ctx, run, column[sql.NullString], "SELECT history_floor FROM keyfold_outbox_state WHERE id = 1"+lock)
	if err != nil || len(texts) == 0 || !texts[0].Valid {
		return 0, err
	}
	return parseTime(texts[0].String)
}

// aboveFloor returns the rows that did not occur before the history's floor, and gives
// the others their fault. The lock keeps a prune from raising the floor until tx ends:
// it would delete the id of an event that tx has checked.
func (d *Database) aboveFloor(ctx context.Context, tx *sql.Tx, rows []*newRow) ([]*newRow, error) {
	floor, err := floorOf(ctx, tx, d.words.sharedLock)
	if err != nil || floor == 0 {
		return rows, err
	}
	above := make([]*newRow, 0, len(rows))
	for _, row := range rows {
		if row.occurred < timeText(floor) {
			row.fault = engine.PermanentError(reasonBeforeHistory, fmt.Errorf("%w (keyfold history prune, to %s)", engine.ErrBeforeHistory, floor.Time().Format(isoTime)))
			continue
		}
		above = append(above, row)
	}
	return above, nil
}
