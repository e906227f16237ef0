package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// shopRow is a row by the columns of the specification.
type shopRow struct {
	id        int64
	user      userID
	eventType sql.NullString
	phrase    sql.NullString
	productID sql.NullString // a whole number of any size, or the event is none
	occurred  sql.NullString
	metadata  sql.NullString
	messageID sql.NullString
	body      []byte // nil where the row has none
}

const shopColumns = "id, user_id, event_type, search_phrase, product_id, occurred_at, metadata, message_id, body"

func scanShopRow(s scanner) (row shopRow, err error) {
	err = s.Scan(&row.id, &row.user, &row.eventType, &row.phrase, &row.productID, &row.occurred, &row.metadata, &row.messageID, &row.body)
	return row, err
}

// shopBody is a message's body, in the specification's order.
type shopBody struct {
	UserID     int32           `json:"user_id"`
	EventType  string          `json:"event_type"`
	Phrase     *string         `json:"search_phrase"`
	ProductID  json.RawMessage `json:"product_id"`
	OccurredAt string          `json:"occurred_at"`
	Metadata   json.RawMessage `json:"metadata"`
	MessageID  string          `json:"message_id"`
	Version    string          `json:"version"`
}

// entry returns the row as an event with its body: the row's own, or one that is made
// of its columns. Errors are permanent ones: the columns make no event.
func (r *shopRow) entry() (profile.Entry, error) {
	if fault := r.user.fault(r.id); fault != nil {
		return profile.Entry{}, rejected("%w", fault)
	}
	body := r.body
	if body == nil {
		var err error
		if body, err = r.write(); err != nil {
			return profile.Entry{}, rejected("user_interactions row %d: %w", r.id, err)
		}
	}
	event, err := profile.ParseEvent(body, farFuture)
	if err != nil {
		return profile.Entry{}, engine.PermanentError(engine.ReasonOf(err), fmt.Errorf("user_interactions row %d is no event: %w", r.id, err))
	}
	if event.UserID != r.user.id {
		return profile.Entry{}, rejected("user_interactions row %d: its body is of user %d and its column of user %d", r.id, event.UserID, r.user.id)
	}
	return profile.Entry{Event: event, Body: body}, nil
}

func (r *shopRow) write() ([]byte, error) {
	occurred, err := parseTime(r.occurred.String)
	if err != nil {
		return nil, err
	}
	body := shopBody{
		UserID: r.user.id, EventType: r.eventType.String, OccurredAt: occurred.Time().Format(isoTime),
		MessageID: r.messageID.String, Version: "1.0",
	}
	reference := ""
	if r.phrase.Valid {
		body.Phrase, reference = &r.phrase.String, r.phrase.String
	}
	if kind := profile.ParseEventType(body.EventType); !kind.HasPhrase() && r.productID.Valid {
		body.ProductID, reference = []byte(r.productID.String), r.productID.String
	}
	if text := []byte(r.metadata.String); json.Valid(text) && bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		body.Metadata = text
	}
	if body.MessageID == "" {
		body.MessageID = profile.MessageID(r.user.id, profile.ParseEventType(body.EventType), reference, body.OccurredAt)
	}
	return json.Marshal(body)
}

// fillBodies makes the bodies of rows that have none, and reads their events.
func fillBodies(ctx context.Context, run runner, rows []stored) error {
	bare := map[int64]*stored{}
	var ids []int64
	for i := range rows {
		if rows[i].Body == nil {
			bare[rows[i].ID] = &rows[i]
			ids = append(ids, rows[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return each(ctx, run, func(s scanner) error {
		shop, err := scanShopRow(s)
		if err != nil {
			return err
		}
		row := bare[shop.id]
		entry, fault := shop.entry()
		if fault != nil {
			row.fault = fault
		} else {
			row.Body, row.Event = entry.Body, entry.Event
		}
		return nil
	}, "SELECT "+shopColumns+" FROM user_interactions WHERE id IN ("+list(len(ids))+")", anyOf(ids)...)
}
