package outbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"keyfold/engine"
)

// Bounds of one INSERT. A server may take less: what it finds too large is
// halved.
const (
	statementRows  = 500
	statementBytes = 2 << 20
)

// insert stores the rows that are new, and marks them as fresh; a row that the
// database rejects gets its fault and the others are stored. The rows' keys
// differ. The order of the rows is that of the ids they get.
func (d *Database) insert(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	for len(rows) > 0 {
		n, bytes := 0, 0
		for n < len(rows) && n < statementRows && (n == 0 || bytes+rows[n].size() <= statementBytes) {
			bytes += rows[n].size()
			n++
		}
		if err := d.insertNew(ctx, tx, rows[:n]); err != nil {
			return err
		}
		if err := dropCleaned(ctx, tx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// insertNew tries all rows in one statement, which is what nearly always
// succeeds; a row is new if, and only if, its own INSERT succeeded. (INSERT
// IGNORE would cut off what does not fit, and an upsert does not tell which rows
// it found.) After a duplicate, the rows that are stored already are left out.
// What still fails is halved until the row at fault stands alone.
func (d *Database) insertNew(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	err := d.insertRows(ctx, tx, rows)
	class := classOther
	if err != nil {
		class = d.dialect.classify(err)
	}
	switch {
	case err == nil:
		return nil
	case class == classDuplicate:
		left, err := withoutStored(ctx, tx, rows)
		if err != nil || len(left) == 0 {
			return err
		}
		if len(left) < len(rows) {
			return d.insertNew(ctx, tx, left)
		}
	case class != classRejected:
		return err
	}
	if len(rows) == 1 {
		return d.insertLast(ctx, tx, rows, err)
	}
	half := len(rows) / 2
	if err := d.insertNew(ctx, tx, rows[:half]); err != nil {
		return err
	}
	return d.insertNew(ctx, tx, rows[half:])
}

// insertLast decides on one row that met err. A duplicate whose own key is not
// stored is tried once more, since the row that it met may have been deleted
// meanwhile. If that fails too, the table has a unique key of the shop's own.
func (d *Database) insertLast(ctx context.Context, tx *sql.Tx, row []*newRow, err error) error {
	if d.dialect.classify(err) == classDuplicate {
		again := d.insertRows(ctx, tx, row)
		if again == nil || d.dialect.classify(again) != classDuplicate {
			return again
		}
		if left, err := withoutStored(ctx, tx, row); err != nil || len(left) == 0 {
			return err
		}
		err = errors.Join(errOtherKey, again)
	}
	row[0].fault = engine.PermanentError(reasonRejected, err)
	return nil
}

var errOtherKey = errors.New("a unique key of user_interactions that is not keyfold's holds another event")

func (d *Database) insertRows(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	args := make([]any, 0, 10*len(rows))
	for _, row := range rows {
		args = row.values(args)
	}
	query := "INSERT INTO user_interactions (" + columns + ") VALUES " + strings.Repeat(places+", ", len(rows)-1) + places
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return err
	}
	for _, row := range rows {
		row.fresh = true
	}
	return nil
}

// withoutStored returns the rows whose keys are not stored.
func withoutStored(ctx context.Context, tx *sql.Tx, rows []*newRow) ([]*newRow, error) {
	condition, args := anyKey(rows, "message_id", func(row *newRow) any { return row.messageID })
	stored, err := collect(ctx, tx, scanKey, "SELECT user_id, message_id FROM user_interactions WHERE "+condition, args...)
	if err != nil {
		return nil, err
	}
	known := map[key]bool{}
	for _, k := range stored {
		known[k] = true
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row *newRow) bool { return known[row.key()] }), nil
}

// dropCleaned takes those of the new rows out again whose ids stood in the table
// before and were cleaned up: they are duplicates. It looks after the INSERT,
// because a cleanup that is under way keeps the key until it commits.
func dropCleaned(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	fresh := map[key]*newRow{}
	var candidates []*newRow
	for _, row := range rows {
		if row.fresh {
			fresh[key{row.userID, string(row.digest)}] = row
			candidates = append(candidates, row)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	condition, args := anyKey(candidates, "digest", func(row *newRow) any { return row.digest })
	cleaned, err := collect(ctx, tx, func(s scanner) (*newRow, error) {
		k, err := scanKey(s)
		return fresh[k], err
	}, "SELECT user_id, digest FROM keyfold_cleaned_ids WHERE "+condition, args...)
	if err != nil || len(cleaned) == 0 {
		return err
	}
	condition, args = anyKey(cleaned, "message_id", func(row *newRow) any { return row.messageID })
	_, err = tx.ExecContext(ctx, "DELETE FROM user_interactions WHERE "+condition, args...)
	for _, row := range cleaned {
		row.fresh = false
	}
	return err
}

// anyKey is the condition that a table's row has the user and the id of one of
// these rows. It is written out, because not every server finds row values by
// an index.
func anyKey(rows []*newRow, column string, id func(*newRow) any) (condition string, args []any) {
	one := "(user_id = ? AND " + column + " = ?)"
	for _, row := range rows {
		args = append(args, row.userID, id(row))
	}
	return strings.Repeat(one+" OR ", len(rows)-1) + one, args
}
