package notify

import (
	"crypto/sha512"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// tombstone begins the names of erased users.
const tombstone = "erased:"

// Tombstone returns the name under which a ledger keeps an erased user: a hash of the
// id, longer than any id of a user. A late event of the user is recognised by it. The id
// cannot be read from it, but one who can guess the id can compute the same name.
func Tombstone(user string) string {
	sum := sha512.Sum512([]byte(user))
	return tombstone + hex.EncodeToString(sum[:])
}

// Erased reports whether the key is of an erased user.
func (k *Known) Erased() bool {
	return strings.HasPrefix(k.User, tombstone) && utf8.RuneCountInString(k.User) > MaxUserRunes
}

// Of reports whether the key is of an event of a user, erased or not.
func (k *Known) Of(user string) bool { return k.User == user || k.User == Tombstone(user) }
