package notify

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"keyfold/engine"
)

// makeID returns the id of an event whose body has none: the UUID of version 8
// (RFC 9562) of the first 16 bytes of the SHA-256 of its canonical form. That is
// the values of all fields but event_id in the order of fieldNames, each text under
// its length, times in milliseconds, the metadata with its keys sorted and without
// white space. So neither the order of keys nor white space nor escapes make another
// event; a number written in another way does.
func (p *parser) makeID(n *Notification) uuid.UUID {
	b := make([]byte, 0, 1024)
	for _, text := range []string{n.UserID, n.Type.String(), n.Title, n.Message, n.Source, n.Hint.String()} {
		b = appendText(b, text)
	}
	b = binary.AppendUvarint(b, uint64(len(n.Channels)))
	for _, c := range n.Channels {
		b = append(b, byte(c))
	}
	b = binary.AppendVarint(b, int64(n.Timestamp))
	b = binary.AppendVarint(b, int64(n.ExpiresAt))
	b = appendText(b, n.DedupeKey)
	b = appendText(b, canonical(p.fields[fieldMetadata]))
	if n.Replaces.Any() { // events without it keep the ids that they had before there was such a field
		b = appendText(b, string(p.fields[fieldReplaces].Unquoted()))
	}
	sum := sha256.Sum256(b)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ContentID returns the id that [Parse] would make for the event of a
// [Notification.Body], whatever its event_id: two bodies say the same if theirs are
// equal.
func ContentID(body []byte) (uuid.UUID, error) {
	p := parser{now: math.MaxInt64 / 2, known: eventFields}
	if _, err := p.read(body); err != nil {
		return uuid.Nil, err
	}
	return p.makeID(p.notification()), p.faults.err()
}

// appendText appends a text under its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// canonical returns the metadata with its keys sorted and without white space, ""
// for none and for an empty object.
func canonical(metadata engine.Value) string {
	if kindOf(metadata.Text) != Object {
		return ""
	}
	text := jsontext.Value(metadata.Text).Clone()
	_ = text.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false)) // the body's reader has found it to be good
	if string(text) == "{}" {
		return ""
	}
	return string(text)
}

// complete returns a copy of the body with the event's id, and all else literally
// as it came. brace is the offset of the closing brace.
func (p *parser) complete(body []byte, brace int, id uuid.UUID, made bool) []byte {
	whole := make([]byte, 0, len(body)+len(`,"event_id":""`)+36)
	if !made {
		return append(whole, body[:brace+1]...)
	}
	rest, there := 0, p.fields[fieldEventID]
	if kindOf(there.Text) == Null {
		whole = append(append(whole, body[:there.Offset]...), `"`+id.String()+`"`...)
		rest = there.Offset + len(there.Text)
	}
	whole = append(whole, body[rest:brace]...)
	if kindOf(there.Text) == Absent {
		whole = append(whole, `,"event_id":"`+id.String()+`"`...)
	}
	return append(whole, '}')
}

// NewDecisionID returns the id of a record decided at an instant, a UUID of version
// 7 (RFC 9562): a query by id finds the record's day in the id itself.
func NewDecisionID(at engine.Millis, random [10]byte) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], uint64(at)<<16)
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// DecisionInstant returns the decided_at in a decision_id; of another UUID it has no meaning.
func DecisionInstant(id uuid.UUID) engine.Millis {
	return engine.Millis(binary.BigEndian.Uint64(id[:8]) >> 16)
}

// digestSpace is the namespace of the ids of digests.
var digestSpace = uuid.MustParse("6f1d2c34-58c7-4b0a-9a53-0f6be0a3c1d7")

// DigestID returns the id of a digest: a UUID of version 5 (RFC 9562) of the user,
// the digest's key, its instant and the first of its items. An event is sent once at
// most, so items that come after their digest has been decided, because their LATER was
// written late, make a digest of another id. Under the same id, senders would drop it.
func DigestID(user, key string, slot engine.Millis, first uuid.UUID) uuid.UUID {
	name := appendText(appendText(nil, user), key)
	return uuid.NewSHA1(digestSpace, append(binary.AppendVarint(name, int64(slot)), first[:]...))
}
