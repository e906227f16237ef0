package notify

import (
	"crypto/sha512"
	"encoding/hex"
)

// Tombstone returns the name under which a ledger keeps an erased user: a hash of the
// id, longer than any id of a user. A late event of the user is recognised by it. The id
// cannot be read from it, but one who can guess the id can compute the same name.
func Tombstone(user string) string {
	sum := sha512.Sum512([]byte(user))
	return "erased:" + hex.EncodeToString(sum[:])
}

// Of reports whether the key is of an event of a user, erased or not.
func (k *Known) Of(user string) bool { return k.User == user || k.User == Tombstone(user) }
