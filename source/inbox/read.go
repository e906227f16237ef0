package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"keyfold/engine"
)

// StoredEvent is an event as the inbox keeps it.
type StoredEvent struct {
	MessageID  string
	UserID     int32
	Type       engine.EventType
	OccurredAt engine.Millis
	ReceivedAt engine.Millis
	State      State
	SettledAt  engine.Millis // 0 while it is pending
	Body       []byte        // as it arrived; empty where its source keeps it ([Arrival.Kept])
}

// Event parses the stored body. The id is the one it entered with. Without a body
// the event has neither product nor phrase.
func (e *StoredEvent) Event() (engine.Event, error) {
	if len(e.Body) == 0 {
		return engine.Event{
			UserID: e.UserID, Type: e.Type, OccurredAt: e.OccurredAt, MessageID: e.MessageID, Digest: engine.DigestOf(e.MessageID),
		}, nil
	}
	return parseStored(e.Body, e.MessageID, e.ReceivedAt, e.OccurredAt)
}

// parseStored reads a body that was accepted once. Whether its time lay in the
// future was judged then, and is not judged again by a clock that may have been
// set back since.
func parseStored(body []byte, messageID string, receivedAt, occurredAt engine.Millis) (engine.Event, error) {
	event, err := engine.ParseEvent(body, max(receivedAt, occurredAt).Time())
	event.MessageID, event.Digest = messageID, engine.DigestOf(messageID)
	return event, err
}

// Last returns up to n of a user's events, the newest by (occurred_at,
// message_id) first.
func Last(ctx context.Context, r Reader, user int32, n int) (events []StoredEvent, err error) {
	rows, err := r.QueryContext(ctx, `SELECT message_id, user_id, event_type, occurred_at, received_at, state,
		coalesce(settled_at, 0), body FROM inbox WHERE user_id = ? ORDER BY occurred_at DESC, message_id DESC LIMIT ?`, user, max(n, 0))
	if err != nil {
		return nil, fmt.Errorf("inbox: last events of user %d: %w", user, err)
	}
	defer func() { err = joinClose(err, rows) }()
	for rows.Next() {
		var e StoredEvent
		var eventType string
		if err := rows.Scan(&e.MessageID, &e.UserID, &eventType, &e.OccurredAt, &e.ReceivedAt, &e.State, &e.SettledAt, &e.Body); err != nil {
			return nil, fmt.Errorf("inbox: last events of user %d: %w", user, err)
		}
		e.Type = engine.ParseEventType(eventType)
		events = append(events, e)
	}
	return events, rows.Err()
}

// Pending returns how many stored events have no final verdict.
func (in *Inbox) Pending(ctx context.Context) (int, error) {
	n, err := number(ctx, in.ports.Reader, `SELECT count(*) FROM inbox WHERE state = 0`)
	if err != nil {
		return 0, fmt.Errorf("inbox: count pending events: %w", err)
	}
	return int(n.Int64), nil
}

// DeadLetter is an event that will never be folded.
type DeadLetter struct {
	ID        int64
	MessageID string // "" for a malformed body
	UserID    int32  // 0 for a malformed body
	Reason    string
	Detail    string
	Body      []byte // the first [engine.MaxBodyBytes] of it
	FirstAt   engine.Millis
	LastAt    engine.Millis
	Times     int // how often this very body came
}

// deadChunk is how many dead letters are read at a time.
const deadChunk = 256

// DeadLetters iterates over the dead letters, the oldest first, and ends at the
// first error. No read stays open while the caller works on one.
func (in *Inbox) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for after := int64(0); ; {
			letters, err := in.deadAfter(ctx, after)
			if err != nil {
				yield(DeadLetter{}, fmt.Errorf("inbox: read dead letters: %w", err))
				return
			}
			for i := range letters {
				if !yield(letters[i], nil) {
					return
				}
			}
			if len(letters) < deadChunk {
				return
			}
			after = letters[len(letters)-1].ID
		}
	}
}

func (in *Inbox) deadAfter(ctx context.Context, after int64) (letters []DeadLetter, err error) {
	rows, err := in.ports.Reader.QueryContext(ctx, `SELECT id, message_id, user_id, reason, detail, body, first_at, last_at, times
		FROM dead WHERE id > ? ORDER BY id LIMIT ?`, after, deadChunk)
	if err != nil {
		return nil, err
	}
	defer func() { err = joinClose(err, rows) }()
	for rows.Next() {
		var l DeadLetter
		var messageID sql.NullString
		var user sql.NullInt32
		if err := rows.Scan(&l.ID, &messageID, &user, &l.Reason, &l.Detail, &l.Body, &l.FirstAt, &l.LastAt, &l.Times); err != nil {
			return nil, err
		}
		l.MessageID, l.UserID = messageID.String, user.Int32
		letters = append(letters, l)
	}
	return letters, rows.Err()
}
