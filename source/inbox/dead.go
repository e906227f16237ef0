package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"keyfold/engine"
)

// DeadEvent is an event, or a body that is none, that can never be folded.
type DeadEvent struct {
	ID        int64
	MessageID string // "" for a malformed body
	UserID    int32  // 0 for a malformed body
	Reason    string
	Detail    string // what was found and what was expected
	Body      []byte // at most [profile.MaxBodyBytes] of it
	FirstAt   engine.Millis
	LastAt    engine.Millis
	Times     int    // how often this body came
	Origin    Origin // of the last time
}

// ErrNoDead says that a file has no list of dead events: nothing was read into it
// by this version.
var ErrNoDead = errors.New("inbox: the file has no list of dead events")

// errStop ends a query whose rows are no longer wanted.
var errStop = errors.New("stop")

// Dead yields the dead events in the order in which they first came: those of one
// id unless it is 0, and of one reason unless it is "".
func Dead(ctx context.Context, r Reader, id int64, reason string) iter.Seq2[DeadEvent, error] {
	return func(yield func(DeadEvent, error) bool) {
		known, err := hasOrigin(reading(ctx, r))
		switch {
		case err == nil && !known:
			err = ErrNoDead
		case err == nil:
			err = each(reading(ctx, r), func(rows *sql.Rows) error {
				var d DeadEvent
				err := rows.Scan(&d.ID, &d.MessageID, &d.UserID, &d.Reason, &d.Detail, &d.Body,
					&d.FirstAt, &d.LastAt, &d.Times, &d.Origin.Name, &d.Origin.Line)
				if err == nil && !yield(d, nil) {
					err = errStop
				}
				return err
			}, `SELECT id, coalesce(message_id, ''), coalesce(user_id, 0), reason, detail, body, first_at, last_at, times, file, line
				FROM dead WHERE (?1 = 0 OR id = ?1) AND (?2 = '' OR reason = ?2) ORDER BY id`, id, reason)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(DeadEvent{}, fmt.Errorf("inbox: read dead events: %w", err))
		}
	}
}

// DeadCounts returns how many dead events there are by reason.
func DeadCounts(ctx context.Context, r Reader) (counts map[string]int64, err error) {
	counts = map[string]int64{}
	err = each(reading(ctx, r), func(rows *sql.Rows) error {
		var reason string
		var n int64
		err := rows.Scan(&reason, &n)
		counts[reason] = n
		return err
	}, `SELECT reason, count(*) FROM dead GROUP BY reason`)
	if err != nil {
		return nil, fmt.Errorf("inbox: count dead events: %w", err)
	}
	return counts, nil
}
