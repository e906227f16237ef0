package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxGroupBytes bounds a digest's key. Ledgers index it: an index of PostgreSQL takes
// 2,700 bytes a row.
const MaxGroupBytes = 256

// escaped keeps values apart that have the sign between values in them.
var escaped = strings.NewReplacer(`\`, `\\`, `|`, `\|`)

// groupKey joins the values that make a digest's key. Lists of as many values have the
// same key only where they are the same. A long key is a hash: its beginning, `\#`, is in
// no other one.
func groupKey(values []string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = escaped.Replace(v)
	}
	key := strings.Join(parts, "|")
	if len(key) <= MaxGroupBytes {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return `\#` + hex.EncodeToString(sum[:])
}
