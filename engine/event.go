package engine

import (
	"cmp"
	"crypto/sha256"
	"strings"
)

// EventType is what a user did. The zero value is no event.
type EventType uint8

// The event types, by their names on the wire.
const (
	Search EventType = iota + 1
	ProductView
	ProductClick
	ProductPurchase
)

// EventTypes lists every type, in the order of their constants.
var EventTypes = [...]EventType{Search, ProductView, ProductClick, ProductPurchase}

var eventTypeNames = [...]string{"", "search", "product_view", "product_click", "product_purchase"}

// String returns the type's name on the wire.
func (t EventType) String() string {
	if int(t) >= len(eventTypeNames) {
		return ""
	}
	return eventTypeNames[t]
}

// ParseEventType returns the type of that name, or 0 for an unknown one.
func ParseEventType(name string) EventType {
	for _, t := range EventTypes {
		if eventTypeNames[t] == name {
			return t
		}
	}
	return 0
}

// Limits of an event, checked by [ParseEvent].
const (
	MaxBodyBytes    = 64 << 10
	MaxPhraseRunes  = 255
	MaxMessageRunes = 128
	MaxDepth        = 32
	MaxFutureMillis = 5 * 60 * 1000
)

// Earliest is the first instant that an event may have: the year 1000, before
// which SQL's DATETIME columns keep nothing.
const Earliest Millis = -30610224000000

// Digest is the first half of the SHA-256 of a message id. A profile keeps a part
// of it: see [AppliedID].
type Digest [16]byte

// DigestOf returns the digest of a message id. The id is an opaque key: two
// spellings of one hash are two ids.
func DigestOf(messageID string) Digest {
	var room [128]byte // spares most ids, which are 64 bytes, an allocation
	sum := sha256.Sum256(append(room[:0], messageID...))
	return Digest(sum[:16])
}

// Event is one valid user event. It is a value: nothing in it aliases the body
// it was read from.
type Event struct {
	UserID     int32
	ProductID  int32 // 0 for a search
	Type       EventType
	Phrase     string // "" for a product event
	OccurredAt Millis
	MessageID  string
	Digest     Digest // of MessageID
}

// Compare is the order in which a batch is folded: (occurred_at, message_id).
func (e *Event) Compare(o *Event) int {
	if e.OccurredAt != o.OccurredAt {
		return cmp.Compare(e.OccurredAt, o.OccurredAt)
	}
	return strings.Compare(e.MessageID, o.MessageID)
}

// Before reports whether the event is folded before another.
func (e *Event) Before(o *Event) bool { return e.Compare(o) < 0 }

// Entry is a valid event and its message body, which stores keep literally.
type Entry struct {
	Event Event
	Body  []byte
	Trace *Trace // nil without one; entries may share it
}
