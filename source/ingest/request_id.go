package ingest

import (
	"crypto/rand"
	"net/http"
	"strings"
)

// requestHeader carries the id under which a request stands in both sides'
// logs.
const requestHeader = "X-Request-Id"

const maxRequestID = 128

// requestID returns the sender's id for a request where it can stand in a log
// as it is, and a new one otherwise.
func requestID(r *http.Request) string {
	id := r.Header.Get(requestHeader)
	if len(id) == 0 || len(id) > maxRequestID || strings.ContainsFunc(id, isUnsafe) {
		return rand.Text()
	}
	return id
}

// isUnsafe reports whether a character is none of those that ids are made of:
// UUIDs, ULIDs, trace contexts and base64 pass.
func isUnsafe(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return false
	default:
		return !strings.ContainsRune("._:=+/-", c)
	}
}
