package outbox

import (
	"context"
	"database/sql"
	"strings"
)

// Bounds of one INSERT. Servers take packets of 16 MiB or more.
const (
	statementRows  = 500
	statementBytes = 2 << 20
)

// insert stores the rows that are new, and marks them as fresh. Their ids
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
		rows = rows[n:]
	}
	return nil
}

// insertNew tries all rows in one statement, which is what nearly always
// succeeds; a row is new if, and only if, its own INSERT succeeded. (INSERT
// IGNORE would cut off what does not fit, and an upsert does not tell which rows
// it found.) After a duplicate, those stored already are looked up; another
// process may store more of them meanwhile, and at last each row is tried alone.
func (d *Database) insertNew(ctx context.Context, tx *sql.Tx, rows []*newRow) error {
	for range 2 {
		err := d.insertRows(ctx, tx, rows)
		if err == nil || d.dialect.classify(err) != classDuplicate {
			return err
		}
		if rows, err = withoutStored(ctx, tx, rows); err != nil || len(rows) == 0 {
			return err
		}
	}
	for i := range rows {
		err := d.insertRows(ctx, tx, rows[i:i+1])
		if err != nil && d.dialect.classify(err) != classDuplicate {
			return err
		}
	}
	return nil
}

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

// withoutStored returns the rows whose ids are not stored.
func withoutStored(ctx context.Context, tx *sql.Tx, rows []*newRow) ([]*newRow, error) {
	ids := make([]any, len(rows))
	for i, row := range rows {
		ids[i] = row.messageID
	}
	stored := map[string]bool{}
	err := each(ctx, tx, func(s scanner) error {
		var id string
		if err := s.Scan(&id); err != nil {
			return err
		}
		stored[id] = true
		return nil
	}, "SELECT message_id FROM user_interactions WHERE message_id IN ("+list(len(ids))+")", ids...)
	if err != nil {
		return nil, err
	}
	var left []*newRow
	for _, row := range rows {
		if !stored[row.messageID] {
			left = append(left, row)
		}
	}
	return left, nil
}
