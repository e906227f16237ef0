package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"keyfold/engine/profile"
)

// errEnough ends a query whose reader wants no more.
var errEnough = errors.New("the reader has enough")

// Bodies yields the stored events that are or are to be in profiles, with their bodies, by
// user, occurred_at and message_id. Those whose source keeps the body are not among them.
func Bodies(ctx context.Context, r Reader) iter.Seq2[StoredEvent, error] {
	return func(yield func(StoredEvent, error) bool) {
		err := each(reading(ctx, r), func(rows *sql.Rows) error {
			var e StoredEvent
			var eventType string
			err := rows.Scan(&e.MessageID, &e.UserID, &eventType, &e.OccurredAt, &e.ReceivedAt, &e.State, &e.Body)
			if e.Type = profile.ParseEventType(eventType); err == nil && !yield(e, nil) {
				return errEnough
			}
			return err
		}, `SELECT message_id, user_id, event_type, occurred_at, received_at, state, body FROM inbox
			WHERE state IN (?, ?, ?) AND length(body) > 0 ORDER BY user_id, occurred_at, message_id`,
			int64(StatePending), int64(StateFolded), int64(StateProductMissing))
		if err != nil && !errors.Is(err, errEnough) {
			yield(StoredEvent{}, fmt.Errorf("inbox: read the events: %w", err))
		}
	}
}
