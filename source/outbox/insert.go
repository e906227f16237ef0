package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"keyfold/engine"
)

// Bounds of one INSERT. A server may take less: what it finds too large is
// halved.
const (
	statementRows  = 500
	statementBytes = 2 << 20
)

// insert registers the ids of rows and stores those that are new, which it marks as
// fresh; a row that the database rejects, or that occurred before the history's floor,
// gets its fault. The rows' keys differ. The order of the rows is that of the ids they
// get.
func (d *Database) insert(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	rows, err := d.aboveFloor(ctx, tx, rows)
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		n, bytes := 0, 0
		for n < len(rows) && n < statementRows && (n == 0 || bytes+rows[n].size() <= statementBytes) {
			bytes += rows[n].size()
			n++
		}
		unknown, err := d.register(ctx, tx, rows[:n])
		if err != nil {
			return err
		}
		if err := d.insertNew(ctx, tx, unknown); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// insertNew tries all rows in one statement, which is what nearly always succeeds. What
// the database rejects, or what collides with a unique key of the shop's own, is halved
// until the row at fault stands alone.
func (d *Database) insertNew(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	if len(rows) == 0 {
		return nil
	}
	err := d.dialect.try(ctx, tx, func() error { return insertRows(ctx, tx, rows) })
	if err == nil {
		return nil
	}
	class := d.dialect.classify(err)
	if class != classDuplicate && class != classRejected {
		return err
	}
	if len(rows) == 1 {
		if class == classDuplicate {
			err = errors.Join(errOtherKey, err)
		}
		rows[0].fault = engine.PermanentError(reasonRejected, err)
		return nil
	}
	half := len(rows) / 2
	if err := d.insertNew(ctx, tx, rows[:half]); err != nil {
		return err
	}
	return d.insertNew(ctx, tx, rows[half:])
}

var errOtherKey = errors.New("a unique key of user_interactions that is not keyfold's holds another event")

func insertRows(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	args := make([]any, 0, 11*len(rows)) // as many as [places]
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
