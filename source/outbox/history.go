package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"

	"keyfold/engine"
)

// page is how many rows a history reads at once.
const page = 1000

// History reads the rows a filter picks in the order in which they are folded:
// by user, occurred_at and message_id. It starts behind a position, the zero one
// being the beginning, and reads in pages, so that it may take as long as its
// reader does; rows that are stored meanwhile behind the position are seen. A
// row that is no event comes with a permanent error, and reading goes on;
// any other error is the last thing it yields. Repeated events are left out, and rows of
// a shop that no relay has completed yet.
func (d *Database) History(ctx context.Context, filter Filter, from Position) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		start := cursor{begun: from.MessageID != "", occurred: timeText(from.OccurredAt), messageID: from.MessageID}
		if from.UserID > 0 && !d.readUser(ctx, filter, from.UserID, start, yield) {
			return
		}
		for user := from.UserID; ; {
			users, err := d.usersAfter(ctx, filter, user)
			if err != nil {
				yield(Row{}, d.fault("list users", err))
				return
			}
			for _, user = range users {
				if !d.readUser(ctx, filter, user, cursor{}, yield) {
					return
				}
			}
			if len(users) < page {
				return
			}
		}
	}
}

// Position is a place in a [Database.History]: behind the row it was taken from.
// It marshals to JSON, so that a long task can go on where it was stopped.
type Position struct {
	UserID     int32         `json:"user_id"`
	OccurredAt engine.Millis `json:"occurred_at"`
	MessageID  string        `json:"message_id"`
}

// Position returns the place behind the row.
func (r *Row) Position() Position {
	return Position{UserID: r.Event.UserID, OccurredAt: r.Event.OccurredAt, MessageID: r.Event.MessageID}
}

// Users returns the next users that have rows, in the order of their ids, behind
// the one named; none at the end.
func (d *Database) Users(ctx context.Context, after int32) ([]int32, error) {
	users, err := d.usersAfter(ctx, Filter{}, after)
	if err != nil {
		return nil, d.fault("list users", err)
	}
	return users, nil
}

// usersAfter returns the next users with rows the filter picks.
func (d *Database) usersAfter(ctx context.Context, filter Filter, user int32) ([]int32, error) {
	query, args := filter.restrict("SELECT DISTINCT user_id FROM user_interactions WHERE user_id > ? AND user_id <= 2147483647", []any{user})
	return collect(ctx, d.pool, column[int32], query+" ORDER BY user_id LIMIT ?", append(args, page)...)
}

// readUser yields one user's rows from behind a place and reports whether to
// go on.
func (d *Database) readUser(ctx context.Context, filter Filter, user int32, at cursor, yield func(Row, error) bool) bool {
	filter.UserID = user
	for {
		rows, more, err := d.userPage(ctx, filter, at)
		if err != nil {
			yield(Row{}, d.fault(fmt.Sprintf("read user %d", user), err))
			return false
		}
		for _, row := range rows {
			if !yield(row.Row, row.fault) {
				return false
			}
			at = row.at
		}
		if !more {
			return true
		}
	}
}

// cursor is a place among a user's rows by their columns, which a row without an event
// has too. occurred may be what is no time.
type cursor struct {
	begun     bool // or it is the beginning
	occurred  string
	noTime    bool
	messageID string
}

// placed is a row with its place.
type placed struct {
	stored
	at cursor
}

// userPage reads some of a user's rows, and whether there may be more. The columns'
// order is the events' own: message ids are compared byte by byte in both.
func (d *Database) userPage(ctx context.Context, filter Filter, at cursor) (rows []placed, more bool, err error) {
	query, args := filter.restrict("SELECT "+rowColumns+", occurred_at FROM user_interactions"+d.words.index("idx_user_occurred")+" WHERE message_id IS NOT NULL AND duplicate = FALSE", nil)
	if at.begun {
		by := "occurred_at"
		if at.noTime {
			by = d.words.asText(by)
		}
		query += " AND " + by + " >= ? AND (" + by + " > ? OR message_id > ?)"
		args = append(args, at.occurred, at.occurred, at.messageID)
	}
	rows, err = collect(ctx, d.pool, func(s scanner) (row placed, err error) {
		var occurred sql.NullString
		row.stored, err = scanStored(extended{s, []any{&occurred}})
		row.at = cursor{begun: true, occurred: occurred.String, noTime: true, messageID: row.messageID}
		if known, err := parseTime(occurred.String); err == nil {
			row.at.occurred, row.at.noTime = timeText(known), false
		}
		return row, err
	}, query+" ORDER BY occurred_at, message_id LIMIT ?", append(args, page)...)
	if err != nil {
		return nil, false, err
	}
	bare := make([]stored, len(rows))
	for i := range rows {
		bare[i] = rows[i].stored
	}
	if err := fillBodies(ctx, d.pool, bare); err != nil {
		return nil, false, err
	}
	for i := range rows {
		rows[i].stored = bare[i]
	}
	more = len(rows) == page
	// A row without a body that is gone by now was deleted meanwhile.
	rows = slices.DeleteFunc(rows, func(row placed) bool { return row.Body == nil && row.fault == nil })
	return rows, more, nil
}

// extended scans more columns than its caller knows of.
type extended struct {
	scanner
	more []any
}

// Scan reads a row.
func (e extended) Scan(dest ...any) error { return e.scanner.Scan(append(dest, e.more...)...) }
