package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// MessageID returns the id of an event: the SHA-256, in lower-case hexadecimal,
// of user id, event type, reference and occurredAt joined by "|". The reference
// is the product id in decimal or the search phrase as sent, occurredAt the
// literal that stands in the body.
//
// The id is made once, where the event enters; a consumer takes the one it
// finds and makes one only for a body that has none.
func MessageID(userID int32, t EventType, reference, occurredAt string) string {
	var room [256]byte // enough for most, so that they stay off the heap
	b := strconv.AppendInt(room[:0], int64(userID), 10)
	b = append(b, '|')
	b = append(b, t.String()...)
	b = append(b, '|')
	b = append(b, reference...)
	b = append(b, '|')
	b = append(b, occurredAt...)
	sum := sha256.Sum256(b)
	var id [2 * sha256.Size]byte
	hex.Encode(id[:], sum[:])
	return string(id[:])
}
