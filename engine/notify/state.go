package notify

import (
	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/similar"
)

// Bounds of a state.
const (
	MaxSends = 256
	MaxMarks = 256 // of a type
	MaxNear  = 64  // of a type, the newest: older marks find the same content only
)

// State is what is stored of a user: what the user's records of the horizon come
// to ([State.Fold]). The zero value is that of a user without records.
type State struct {
	DecidedAt  engine.Millis // the newest decided_at; time never runs backwards
	Erased     bool
	MergedInto string                   // the user that this one is an alias of; "": it is none. An alias has no more than this
	Sends      []engine.Millis          // ascending, newest MaxSends
	LastSend   [typeCount]engine.Millis // by type; 0: none
	Marks      []Mark                   // in the order of their records
	LastDigest uuid.UUID                // the digest that was counted last
	Reserved   []Reservation            // slots of events that wait, by their instants; at most MaxSends
	Sent       []Sent                   // what limits count, in the order of their records; the newest MaxSends of a type
}

// Mark is the fingerprint of an event that was sent or is deferred.
type Mark struct {
	EventID uuid.UUID
	Type    EventType
	At      engine.Millis // decided_at of the event's newest record
	Print   similar.Print // of an older one, [similar.Print.Exact]
}
