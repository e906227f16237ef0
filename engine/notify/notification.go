package notify

import (
	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/similar"
)

// Limits of an event. Lengths are in characters.
const (
	MaxBodyBytes     = 64 << 10
	MaxUserRunes     = 128
	MaxTitleRunes    = 120
	MaxMessageRunes  = 1000
	MaxSourceRunes   = 64
	MaxDedupeRunes   = 256
	MaxMetadataBytes = 4 << 10
	// MaxFuture is how far ahead of the clock a timestamp may be.
	MaxFuture = engine.Millis(5 * 60 * 1000)
)

// Notification is one event as a service posted it: what is asked for, not yet
// decided. It is not changed after [Parse] but for Person and Print.
type Notification struct {
	ID        uuid.UUID
	UserID    string
	Person    string // the user that UserID is an alias of, since a [Merge]; "": it is none
	Type      EventType
	Title     string
	Message   string
	Source    string
	Hint      Hint      // 0: none
	Channels  []Channel // preferred first, each once
	Timestamp engine.Millis
	ExpiresAt engine.Millis // 0: never
	DedupeKey string
	Metadata  Metadata
	Replaces  Replaces
	Follows   *Follows // nil: it is no follow-up
	Body      []byte   // the JSON text, with its event_id

	// Print is the fingerprint of the texts under the policy in force. The caller
	// of [Decide] sets it with [Policy.Print].
	Print similar.Print
}

// User returns the user whose state, preferences and records count.
func (n *Notification) User() string {
	if n.Person != "" {
		return n.Person
	}
	return n.UserID
}

// Metadata is an event's metadata object, flat: each member at most four levels
// down under its path, such as "order.id". Objects on the way stand there too.
type Metadata []Member

// Member is one value of the metadata.
type Member struct {
	Path  string // names joined by dots
	Value Value
}

// Get returns the value under a path, the zero Value where there is none.
func (m Metadata) Get(path string) Value {
	for i := range m {
		if m[i].Path == path {
			return m[i].Value
		}
	}
	return Value{}
}

// Kind is the type of a JSON value.
type Kind uint8

// The kinds. Absent is a value that is not there.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Object
	Array
)

// Value is a JSON value in the form in which rules compare it.
type Value struct {
	Kind   Kind
	Bool   bool
	Text   string  // of a String; of a Number as it was written
	Number Decimal // of a Number
	// Items are the texts in an Array, in their order; its other values are left out.
	Items []string
}
