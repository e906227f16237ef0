package profile

import (
	"cmp"
	"crypto/sha256"
	"strings"

	"keyfold/engine"
)

// Limits of an event, checked by [ParseEvent].
const (
	MaxBodyBytes    = 64 << 10
	MaxPhraseRunes  = 255
	MaxMessageRunes = 128
	MaxFutureMillis = 5 * 60 * 1000
)

// Digest is the first half of the SHA-256 of a message id. A profile keeps a part
// of it: see [AppliedID].
type Digest [16]byte

// DigestOf returns the digest of a message id. The id is an opaque key: two
// spellings of one hash are two ids.
func DigestOf(messageID string) Digest {
	var room [128]byte // spares most ids, which are 64 bytes, an allocation
	return digestOf(append(room[:0], messageID...))
}

func digestOf(messageID []byte) Digest {
	sum := sha256.Sum256(messageID)
	return Digest(sum[:16])
}

// Event is one valid user event. It is a value: nothing in it aliases the body
// it was read from.
type Event struct {
	UserID     int32
	ProductID  int32 // 0 where the type has a phrase
	Type       EventType
	Phrase     string // "" where the type has a product
	OccurredAt engine.Millis
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
	Trace *engine.Trace // nil without one; entries may share it
}
