package inbox

import (
	"context"
	"database/sql"
	"fmt"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// StoredEvent is an event as the inbox keeps it.
type StoredEvent struct {
	MessageID  string
	UserID     int32
	Type       profile.EventType
	OccurredAt engine.Millis
	ReceivedAt engine.Millis
	State      State
	SettledAt  engine.Millis // 0 while it is pending
	Body       []byte        // as it arrived; empty where its source keeps it ([Arrival.Kept])
}

// Event parses the stored body. The id is the one it entered with. Without a body
// the event has neither product nor phrase.
func (e *StoredEvent) Event() (profile.Event, error) {
	if len(e.Body) == 0 {
		return profile.Event{
			UserID: e.UserID, Type: e.Type, OccurredAt: e.OccurredAt, MessageID: e.MessageID, Digest: profile.DigestOf(e.MessageID),
		}, nil
	}
	return parseStored(e.Body, e.MessageID, e.ReceivedAt, e.OccurredAt)
}

// parseStored reads a body that was accepted once. Whether its time lay in the
// future was judged then, and is not judged again by a clock that may have been
// set back since.
func parseStored(body []byte, messageID string, receivedAt, occurredAt engine.Millis) (profile.Event, error) {
	event, err := profile.ParseEvent(body, max(receivedAt, occurredAt).Time())
	event.MessageID, event.Digest = messageID, profile.DigestOf(messageID)
	return event, err
}

// Last returns up to n of a user's events, the newest by (occurred_at,
// message_id) first.
func Last(ctx context.Context, r Reader, user int32, n int) (events []StoredEvent, err error) {
	err = each(reading(ctx, r), func(rows *sql.Rows) error {
		var e StoredEvent
		var eventType string
		err := rows.Scan(&e.MessageID, &e.UserID, &eventType, &e.OccurredAt, &e.ReceivedAt, &e.State, &e.SettledAt, &e.Body)
		e.Type = profile.ParseEventType(eventType)
		events = append(events, e)
		return err
	}, `SELECT message_id, user_id, event_type, occurred_at, received_at, state, coalesce(settled_at, 0), body
		FROM inbox WHERE user_id = ? ORDER BY occurred_at DESC, message_id DESC LIMIT ?`, user, max(n, 0))
	if err != nil {
		return nil, fmt.Errorf("inbox: last events of user %d: %w", user, err)
	}
	return events, nil
}

// Arrived is a user with the time when the user's newest event arrived.
type Arrived struct {
	UserID     int32
	ReceivedAt engine.Millis
}

// recentEvents is how many of the newest events [Recent] looks at.
const recentEvents = 1000

// Recent returns up to n users, the one whose event arrived last first, of the newest events.
func Recent(ctx context.Context, r Reader, n int) (all []Arrived, err error) {
	err = each(reading(ctx, r), func(rows *sql.Rows) error {
		var a Arrived
		var newest int64
		err := rows.Scan(&a.UserID, &a.ReceivedAt, &newest)
		all = append(all, a)
		return err
	}, `SELECT user_id, max(received_at), max(seq) AS newest FROM (SELECT user_id, received_at, seq FROM inbox WHERE state <> ? ORDER BY seq DESC LIMIT ?)
		GROUP BY user_id ORDER BY newest DESC LIMIT ?`, int64(StateUserErased), recentEvents, n)
	if err != nil {
		return nil, fmt.Errorf("inbox: users of the newest events: %w", err)
	}
	return all, nil
}

// Pending returns how many stored events have no final verdict.
func (in *Inbox) Pending(ctx context.Context) (n int, err error) {
	if err := queryRow(reading(ctx, in.ports.Reader), []any{&n}, `SELECT count(*) FROM inbox WHERE state = 0`); err != nil {
		return 0, fmt.Errorf("inbox: count pending events: %w", err)
	}
	return n, nil
}
