package explanation

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/outbox"
)

// FromOutbox reads a user's newest events from the SQL history, the oldest first, with what
// keeps each out of the profile, and a note where some are missing. The profile, nil where
// there is none, was read before, and keeps the ids of what it folded within retention.
func FromOutbox(ctx context.Context, db *outbox.Database, user int32, p *profile.Profile, retention time.Duration) (events []Event, note string, err error) {
	return fromOutbox(ctx, db, outbox.Filter{UserID: user}, p, retention, MostEvents)
}

// newest is how long before a profile's newest event [NewestFromOutbox] looks back.
const newest = 24 * time.Hour

// NewestFromOutbox is [FromOutbox] for up to n events of the last day, the profile's or today's:
// it reads no more than these.
func NewestFromOutbox(ctx context.Context, db *outbox.Database, user int32, p *profile.Profile, retention time.Duration, n int) ([]Event, error) {
	from := engine.Now()
	if p != nil && p.Updated != 0 {
		from = min(from, p.Updated)
	}
	events, _, err := fromOutbox(ctx, db, outbox.Filter{UserID: user, From: from - engine.Millis(newest.Milliseconds())}, p, retention, n)
	return events, err
}

func fromOutbox(ctx context.Context, db *outbox.Database, filter outbox.Filter, p *profile.Profile, retention time.Duration, most int) (events []Event, note string, err error) {
	folded, since := map[profile.AppliedID]bool{}, engine.Millis(0)
	if p != nil {
		for _, id := range p.Applied.IDs {
			folded[id] = true
		}
		since = engine.Now() - engine.Millis(retention.Milliseconds())
		if p.Applied.Floor != profile.Undated {
			since = max(since, p.Applied.Floor)
		}
	}
	damaged, older := 0, 0
	for row, err := range db.History(ctx, filter, outbox.Position{}) {
		if engine.KindOf(err) == engine.Permanent {
			damaged++
			continue
		}
		if err != nil {
			return nil, "", err
		}
		events = append(events, Event{Event: row.Event, State: stateOf(&row, since, folded), Since: cmp.Or(row.SentAt, row.StoredAt)})
		if len(events) > most {
			events, older = events[1:], older+1
		}
	}
	switch {
	case older > 0:
		note = fmt.Sprintf("only the newest %d events are read: %d older ones are part of the remainder", MostEvents, older)
	case damaged > 0:
		note = fmt.Sprintf("%d rows of the history hold no event and are left out", damaged)
	}
	return events, note, nil
}

// stateOf says why an event is not in the profile, "" where it is, as far as the row and the
// profile tell: of what was published since an instant, the profile has the ids.
func stateOf(row *outbox.Row, since engine.Millis, folded map[profile.AppliedID]bool) string {
	switch {
	case folded[row.Event.Digest.ID()]:
		return ""
	case !row.Sent:
		return "waiting to be published"
	case cmp.Or(row.SentAt, row.StoredAt) >= since: // another program may not say when it sent it
		return "published, and waiting in a queue or given up"
	}
	return ""
}
