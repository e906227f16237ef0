package notify

import (
	"encoding/json"

	"github.com/google/uuid"

	"keyfold/engine"
)

// Replaces says what a new notification takes the place of; the zero value: nothing.
type Replaces struct {
	Event uuid.UUID // the notification with this id
	ByKey bool      // all of the user that wait with the same dedupe_key
}

// Of reports whether a notification that waits is one of those.
func (r Replaces) Of(n, waits *Notification) bool {
	return r.Event != uuid.Nil && waits.isOf(r.Event) || r.ByKey && waits.DedupeKey == n.DedupeKey
}

// isOf reports whether the notification has an event_id, or follows that one.
func (n *Notification) isOf(event uuid.UUID) bool {
	return n.ID == event || n.Follows != nil && n.Follows.Root == event
}

// Cancellation ends what waits of a user: one event with its follow-ups, or all with a
// dedupe_key.
type Cancellation struct {
	User  string
	Event uuid.UUID // zero: Key names them
	Key   string
	// May reports whether a notification may be cancelled; nil: all may.
	May func(*Notification) bool
}

// ParseCancellation reads {"event_id":"...","user_id":"..."}, of which user_id may be
// absent, or {"user_id":"...","dedupe_key":"..."}. Errors are those of [Parse].
func ParseCancellation(body []byte) (c Cancellation, err error) {
	if err := tooLarge(body); err != nil {
		return c, err
	}
	p := parser{known: cancellationFields}
	if _, err := p.read(body); err != nil {
		return c, err
	}
	c.Event, c.Key = p.id(fieldEventID, FaultBadEventID), p.optionalText(fieldDedupeKey, MaxDedupeRunes)
	if c.Key != "" || kindOf(p.fields[fieldUserID].Text) > Null {
		c.User = p.text(fieldUserID, MaxUserRunes)
	}
	switch {
	case c.Event != uuid.Nil && c.Key != "":
		p.fault(fieldDedupeKey, FaultTwoIDs, "found it and event_id, expected one of them")
	case c.Event == uuid.Nil && c.Key == "" && len(p.faults) == 0:
		p.fault(fieldEventID, engine.ReasonMissingField, "found neither it nor dedupe_key, expected one of them")
	}
	return c, p.faults.err()
}

// Of reports whether a notification that waits is one of those.
func (c *Cancellation) Of(n *Notification) bool {
	if c.May != nil && !c.May(n) {
		return false
	}
	if c.Event != uuid.Nil {
		return n.isOf(c.Event)
	}
	return n.DedupeKey == c.Key
}

// BeforeItCame reports whether the record is of an event that was cancelled before it came:
// what it would have said is not known.
func (r *Record) BeforeItCame() bool {
	return r.Turn == 0 && r.Facts.Step == 0 && len(r.Reasons) > 0 && r.Reasons[0] == ReasonCancelled
}

// Unknown returns what stands for an event that is cancelled before it has come. Its type
// and texts are not known.
func (c *Cancellation) Unknown(at engine.Millis) *Notification {
	n := &Notification{
		ID: c.Event, UserID: c.User, Type: System, Title: "cancelled before it came", Source: "keyfold", Channels: []Channel{InApp}, Timestamp: at,
	}
	n.Body, _ = json.Marshal(map[string]any{ // of texts: it cannot fail
		"event_id": n.ID, "user_id": n.UserID, "event_type": n.Type, "title": n.Title, "source": n.Source,
		"channel": n.Channels, "timestamp": instant(at),
	})
	return n
}

// End returns the record of a turn that ends an event which waits, or is not known yet,
// whatever the set says: its reason is [ReasonCancelled] or [ReasonReplaced]. by is the
// event that replaces it.
func End(set *Set, prefs *Preferences, state *State, event *Notification, turn Turn, reason string, by uuid.UUID, now engine.Millis) Record {
	d := decision{}
	if state == nil {
		state = &noState
	}
	d.begin(set, prefs, state, event, turn, Score{}, now)
	if d.state.Erased {
		d.never(ReasonUserErased)
		return d.made
	}
	d.record.DuplicateOf = by
	d.never(reason)
	return d.made
}

// Any reports whether the notification takes the place of others.
func (r Replaces) Any() bool { return r != Replaces{} }
