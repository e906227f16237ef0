package outbox

import (
	"keyfold/engine"
	"keyfold/engine/profile"
)

// Filter picks rows. The zero value picks all.
type Filter struct {
	UserID int32             // 0: every user
	Type   profile.EventType // 0: every type
	From   engine.Millis     // occurred_at; 0: from the beginning
	Until  engine.Millis     // occurred_at, exclusive; 0: to the end
	Sent   Sent

	backfill bool // with the rows that are left to one
}

// Sent picks rows by whether they were published.
type Sent uint8

// What a filter's Sent picks.
const (
	SentOrNot Sent = iota
	OnlySent
	OnlyUnsent // those that were set aside, too
)

// restrict adds the filter's conditions to a query that ends in its WHERE
// clause.
func (f Filter) restrict(query string, args []any) (string, []any) {
	and := func(condition string, values ...any) {
		query += " AND " + condition
		args = append(args, values...)
	}
	if f.UserID != 0 {
		and("user_id = ?", f.UserID)
	}
	if f.Type != 0 {
		and("event_type = ?", f.Type.String())
	}
	if f.From != 0 {
		and("occurred_at >= ?", timeText(f.From))
	}
	if f.Until != 0 {
		and("occurred_at < ?", timeText(f.Until))
	}
	switch f.Sent {
	case OnlySent:
		and("processed_to_queue = TRUE")
	case OnlyUnsent:
		and(notSent)
	case SentOrNot:
	}
	return query, args
}
