package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Shards is the number of shards users are spread over: a user's shard is its slot,
// [engine.SlotOf].
const Shards = engine.Slots

// Row is a stored interaction. Its event is read from the body, or from the columns
// beside it where a shop's own INSERT gave no body or a cleanup has freed it.
type Row struct {
	ID       int64
	Event    profile.Event
	Body     []byte
	StoredAt engine.Millis // 0 where a shop's row has no such time
	Sent     bool
	SentAt   engine.Millis // 0 while it is not, or where another program sent it
	// TriedAt is when the broker may have got the row before; 0: never. It is of
	// the attempts before the present one.
	TriedAt engine.Millis
	Trace   *engine.Trace // of the request that the event came with; nil without one

	messageID  string // the column's; "" before a relay has completed a shop's row
	attempts   int
	registered bool // its id is
}

// sqlTime is how a time stands in statements and results: UTC in milliseconds.
const sqlTime = "2006-01-02 15:04:05.000"

// isoTime is how a time stands in a body that is made of columns: UTC in milliseconds.
// The id of a shop's row is a digest of it.
const isoTime = "2006-01-02T15:04:05.000+00:00"

func timeText(at engine.Millis) string { return at.Time().Format(sqlTime) }

// parseTime reads a time with any number of decimals, as a shop may have written it.
func parseTime(text string) (engine.Millis, error) {
	at, err := time.Parse(time.DateTime, text)
	if err != nil { // SQLite's driver gives the DATETIME of a shop's own table in this form
		at, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return 0, fmt.Errorf("outbox: a stored time: %w", err)
	}
	return engine.MillisOf(at), nil
}

// farFuture is later than any event: one that was stored had passed the check
// against the future, by a clock that may have been another.
var farFuture = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// changeRows runs an update of rows, whose statement ends where their condition is to
// stand.
func changeRows(ctx context.Context, run runner, rows []Row, update string, args ...any) error {
	for rows := range slices.Chunk(rows, statementRows) {
		condition, named := among(rows)
		if _, err := change(ctx, run, update+condition, slices.Concat(args, named)...); err != nil {
			return err
		}
	}
	return nil
}

// among is the condition of these rows. It names them by message_id too: a server that
// has lost its last transactions gives their ids to new rows.
func among(rows []Row) (condition string, args []any) {
	ids, messageIDs := make([]any, len(rows)), make([]any, len(rows))
	for i := range rows {
		ids[i], messageIDs[i] = rows[i].ID, rows[i].messageID
	}
	places := list(len(rows))
	return "id IN (" + places + ") AND message_id IN (" + places + ")", slices.Concat(ids, messageIDs)
}

// rowColumns are what [scanStored] reads.
const rowColumns = "id, user_id, COALESCE(message_id, ''), body, created_at, COALESCE(processed_to_queue, FALSE), sent_at, tried_at, attempts, registered, headers"

type scanner interface{ Scan(dest ...any) error }

// stored is a row as it was read. fault is set where its body is no event: then it
// has nothing of its event but the user. A row without a body has no more either.
type stored struct {
	Row
	shard int // that it was read of: a shop may have given it another than its user's
	fault error
}

// scanStored reads one row.
func scanStored(s scanner) (row stored, err error) {
	var (
		storedAt, sentAt, triedAt sql.NullString
		user                      userID
		headers                   []byte
	)
	if err := s.Scan(&row.ID, &user, &row.messageID, &row.Body, &storedAt, &row.Sent, &sentAt, &triedAt, &row.attempts, &row.registered, &headers); err != nil {
		return stored{}, err
	}
	row.StoredAt, _ = parseTime(storedAt.String) // it is no part of the event
	for _, column := range []struct {
		text sql.NullString
		into *engine.Millis
	}{{sentAt, &row.SentAt}, {triedAt, &row.TriedAt}} {
		if !column.text.Valid {
			continue
		}
		if *column.into, err = parseTime(column.text.String); err != nil {
			row.fault = rejected("user_interactions row %d: %w", row.ID, err)
		}
	}
	row.Event.UserID = user.id
	if fault := user.fault(row.ID); fault != nil {
		row.fault = fault
	}
	row.Trace = traceOf(headers)
	if row.Body != nil && row.fault == nil {
		row.parse()
	}
	return row, nil
}

// parse reads the event from the body.
func (row *stored) parse() {
	user := row.Event.UserID
	var err error
	if row.Event, err = profile.ParseEvent(row.Body, farFuture); err != nil {
		row.Event = profile.Event{}
		row.fault = fmt.Errorf("user_interactions row %d: the body is no event: %w", row.ID, err)
	}
	row.Event.UserID = user
}
