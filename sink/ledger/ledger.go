// Package ledger has what the ledgers in the folders beneath it share: which changes
// may be written, and what can be read of their records beside [notify.Ledger].
package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Reasons of the permanent errors of a ledger.
const (
	ReasonTurnTwice  = "turn_twice"
	ReasonUserErased = "user_erased"
)

// Filter chooses records. Its zero value chooses all, newest first.
//
// Records of one user or of one event come in the order of their Seq, others in
// that of their decision_id, which begins with decided_at.
type Filter struct {
	User   string        // "": of every user
	Event  uuid.UUID     // zero: of every event
	From   engine.Millis // the least decided_at
	To     engine.Millis // above the greatest decided_at; 0: no bound
	Limit  int           // the most records; 0: no bound
	Oldest bool          // oldest first
	Page   int           // the most records that are read at a time; 0: as many as the store likes
}

// PageSize returns how many records the next page has where the store likes most, and
// left of the limit are not read yet.
func (f *Filter) PageSize(most, left int) int {
	if f.Page > 0 {
		most = min(most, f.Page)
	}
	if f.Limit > 0 {
		most = min(most, left)
	}
	return most
}

// Span chooses the records that are counted. Its zero value chooses all.
type Span struct {
	From, To engine.Millis // from an instant to before another one; a To of 0: no bound
	Most     int64         // of more records so many are counted, which ones is not said; 0: no bound
}

// Has reports whether a record decided at an instant is in the span.
func (s Span) Has(at engine.Millis) bool { return at >= s.From && (s.To == 0 || at < s.To) }

// Count is how many records have a type, an outcome and a first reason in common.
type Count struct {
	Type    notify.EventType
	Outcome notify.Outcome
	Reason  string
	N       int64
}

// CountOf returns what a record is counted under.
func CountOf(r *notify.Record) Count {
	c := Count{Type: r.Type, Outcome: r.Outcome}
	if len(r.Reasons) > 0 {
		c.Reason = r.Reasons[0]
	}
	return c
}

// Compare is the order of counts: by type, outcome and reason.
func (c Count) Compare(o Count) int {
	return cmp.Or(cmp.Compare(c.Type, o.Type), cmp.Compare(c.Outcome, o.Outcome), cmp.Compare(c.Reason, o.Reason))
}

// ErasedError returns the error of preferences that are set for an erased user.
func ErasedError(user string) error {
	return engine.PermanentError(ReasonUserErased, fmt.Errorf("user %q is erased: preferences of an erased user are not kept", user))
}

// Check returns nil where a change may be written, or the answer of
// [notify.Ledger.Commit]. version is the user's stored one, 0 without one; key
// returns the key of an event, the zero one where it is new.
func Check(c *notify.Change, version int64, key func(uuid.UUID) notify.Known) error {
	var known []notify.Known
	newest := make(map[uuid.UUID]int, len(c.Decided))
	for i := range c.Decided {
		r := &c.Decided[i].Record
		stored := key(r.EventID)
		before, met := newest[r.EventID]
		switch {
		case stored.Outcome != 0 && !stored.Of(c.User):
			return fmt.Errorf("event %s: %w: give each event an event_id of its own", r.EventID, notify.ErrAnotherUser)
		case met && before >= r.Turn:
			return engine.PermanentError(ReasonTurnTwice, fmt.Errorf(
				"event %s: turn %d follows turn %d in one change: decide each turn of an event once", r.EventID, r.Turn, before))
		case !met && stored.Outcome != 0 && stored.Turn >= r.Turn:
			known = append(known, stored)
		}
		newest[r.EventID] = r.Turn
	}
	switch {
	case len(known) > 0:
		return &notify.KnownError{Known: known}
	case version != c.Version:
		return engine.ErrConflict
	default:
		return nil
	}
}

// Name returns the name under which the user of a change is stored: a user who was
// erased is stored as a tombstone. A change that knows nothing of the erasure finds no
// such user.
func Name(c *notify.Change) string {
	if c.State != nil && c.State.Erased {
		return notify.Tombstone(c.User)
	}
	return c.User
}

// Key returns the key that a record leaves of its event, where its user is not erased.
func Key(r *notify.Record) notify.Known {
	return notify.Known{
		EventID: r.EventID, User: r.UserID, DecisionID: r.DecisionID, Turn: r.Turn,
		Outcome: r.Outcome, DecidedAt: r.DecidedAt, DigestID: r.DigestID,
	}
}

// Split returns the events whose dispatch was confirmed, and those that expired before
// it. An event that is marked as both was dispatched.
func Split(marks []notify.DispatchMark) (dispatched, expired []uuid.UUID) {
	for _, m := range marks {
		if !m.Expired {
			dispatched = append(dispatched, m.Event)
		}
	}
	for _, m := range marks {
		if m.Expired && !slices.Contains(dispatched, m.Event) {
			expired = append(expired, m.Event)
		}
	}
	return dispatched, expired
}

// Blank returns what stays of a record of an erased user: nothing that tells of the
// user, of the event's texts or of what a sender said of its delivery.
func Blank(d notify.Decided) notify.Decided {
	d.Event, d.Delivery.Error = nil, ""
	d.Record.UserID, d.Record.DigestKey = "", ""
	d.Record.Print, d.Record.Facts = notify.Record{}.Print, notify.Facts{}
	return d
}

// Erased returns the state of an erased user whose newest decision is older.
func Erased(before, at engine.Millis) *notify.State {
	return &notify.State{Erased: true, DecidedAt: max(before, at)}
}
