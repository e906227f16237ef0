package outbox

import (
	"context"
	"database/sql"
	"log/slog"
	"slices"
	"strings"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// completeRows bounds the rows of one statement that fills in their columns.
const completeRows = 100

// complete makes whole events of the rows that a shop's own INSERT left in the table,
// and returns the rows to publish, in their order: it adds the id and the body, and
// registers the id. That is committed before any of them is published, so that a row
// is either registered or was never sent. A row whose id is known is marked as a
// duplicate, and one that is no event is set aside; resolved is how many rows of these.
//
// A row is left alone, and with it the later ones of its user, where another transaction
// has locked it, where another relay, which does not know yet that it has lost its lease,
// has completed it, and where it is gone.
func (r *Relay) complete(ctx context.Context, run runner, rows []stored) (whole []stored, resolved int, err error) {
	var ids []int64
	bare := false
	for i := range rows {
		if !rows[i].registered {
			ids = append(ids, rows[i].ID)
		}
		bare = bare || rows[i].Body == nil
	}
	if len(ids) == 0 && !bare {
		return rows, 0, nil // the API's rows are whole
	}
	var done completion
	if len(ids) > 0 {
		err = r.db.transact(ctx, "complete rows", func(tx *sql.Tx) error {
			done = newCompletion()
			return r.db.complete(ctx, tx, ids, &done)
		})
	}
	if err == nil {
		err = fillBodies(ctx, run, rows)
	}
	if err != nil {
		return nil, 0, err
	}
	for i := range rows {
		row := &rows[i]
		if entry, completed := done.entries[row.ID]; completed && !row.registered {
			row.registered, row.messageID, row.Body, row.Event = true, entry.Event.MessageID, entry.Body, entry.Event
		}
	}
	resolved = len(done.duplicates) + len(done.faults)
	r.Stats.Duplicates.Add(int64(len(done.duplicates)))
	r.Stats.SetAside.Add(int64(len(done.faults)))
	for id, fault := range done.faults {
		r.log.Error("event set aside: it is not published", slog.Int64("row", id), slog.Any("error", fault), slog.String("hint", setAsideHint()))
	}
	whole = slices.DeleteFunc(rows, func(row stored) bool { return done.faults[row.ID] != nil || done.duplicates[row.ID] })
	return upTo(whole, func(row *stored) bool { return row.registered && (row.Body != nil || row.fault != nil) }), resolved, nil
}

// completion is what became of rows.
type completion struct {
	entries    map[int64]profile.Entry
	faults     map[int64]error
	duplicates map[int64]bool
}

func newCompletion() completion {
	return completion{entries: map[int64]profile.Entry{}, faults: map[int64]error{}, duplicates: map[int64]bool{}}
}

// complete completes those of the rows that are not registered yet.
func (d *Database) complete(ctx context.Context, tx *sql.Tx, ids []int64, done *completion) error {
	shop, err := collect(ctx, tx, scanShopRow, "SELECT "+shopColumns+" FROM user_interactions"+d.words.byID+" WHERE id IN ("+list(len(ids))+
		") AND registered = FALSE AND "+unsent+" ORDER BY id"+d.words.skipLocked, anyOf(ids)...)
	if err != nil || len(shop) == 0 {
		return err
	}
	rows, repeated := newRows(shop, done)
	above, err := d.aboveFloor(ctx, tx, rows)
	if err != nil {
		return err
	}
	fresh, err := d.register(ctx, tx, above)
	if err != nil {
		return err
	}
	for _, row := range fresh {
		row.fresh = true
	}
	for _, row := range rows {
		switch {
		case row.fault != nil:
			done.faults[row.id] = row.fault
			delete(done.entries, row.id)
		case !row.fresh:
			repeated = append(repeated, row)
			delete(done.entries, row.id)
		}
	}
	for _, row := range repeated {
		done.duplicates[row.id] = true
	}
	return d.noteCompletion(ctx, tx, fresh, repeated, done.faults)
}

// newRows returns rows as they would have been stored by [Store.Add]: of each id the first,
// and those that repeat one. done gets the entries of the former, and what is no event.
func newRows(shop []shopRow, done *completion) (rows, repeated []*newRow) {
	now, seen := engine.Now(), map[key]bool{}
	for i := range shop {
		id := shop[i].id
		entry, err := shop[i].entry()
		var row newRow
		if err == nil {
			row, err = rowOf(&entry, now)
		}
		row.id = id
		switch {
		case err != nil:
			done.faults[id] = err
		case seen[row.key()]:
			repeated = append(repeated, &row)
		default:
			seen[row.key()] = true
			done.entries[id] = entry
			rows = append(rows, &row)
		}
	}
	return rows, repeated
}

func (d *Database) noteCompletion(ctx context.Context, tx *sql.Tx, fresh, repeated []*newRow, faults map[int64]error) error {
	if err := note(ctx, tx, fresh, "registered = TRUE", true); err != nil {
		return err
	}
	if err := note(ctx, tx, repeated, "duplicate = TRUE, processed_to_queue = TRUE, body = NULL", false); err != nil {
		return err
	}
	for id, fault := range faults {
		f := failure{err: fault}
		_, err := tx.ExecContext(ctx, "UPDATE user_interactions SET failed_at = ?, last_error = ?, processed_to_queue = FALSE WHERE id = ?", timeText(engine.Now()), f.text(), id)
		if err != nil {
			return err
		}
	}
	return nil
}

// note changes rows that stand in the table, and gives them their ids and, where asked for,
// bodies.
func note(ctx context.Context, tx *sql.Tx, rows []*newRow, change string, withBodies bool) error {
	for rows := range slices.Chunk(rows, completeRows) {
		messageIDs, args := caseByID(rows, func(row *newRow) any { return row.messageID })
		set := change + ", message_id = " + messageIDs
		if withBodies {
			bodies, more := caseByID(rows, func(row *newRow) any { return row.body })
			set, args = set+", body = "+bodies, append(args, more...)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE user_interactions SET "+set+" WHERE id IN ("+list(len(rows))+")", append(args, anyOf(idsOf(rows))...)...); err != nil {
			return err
		}
	}
	return nil
}

// caseByID is the expression of a column's value by the row's id.
func caseByID(rows []*newRow, value func(*newRow) any) (expression string, args []any) {
	for _, row := range rows {
		args = append(args, row.id, value(row))
	}
	return "CASE id" + strings.Repeat(" WHEN ? THEN ?", len(rows)) + " END", args
}
