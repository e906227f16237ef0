package httpapi

import (
	"crypto/rand"
	"net/http"
	"strings"

	"keyfold/engine"
)

// requestHeader carries the id under which a request stands in both sides'
// logs.
const requestHeader = engine.HeaderRequestID

// requestID returns the sender's id for a request where it can stand in a log
// as it is, and a new one otherwise.
func requestID(r *http.Request) string {
	id := r.Header.Get(requestHeader)
	if !engine.IsRequestID(id) {
		return rand.Text()
	}
	return id
}

// outside reports whether a character is neither an ASCII letter or digit nor one of
// others.
func outside(others string) func(rune) bool {
	return func(c rune) bool {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return false
		default:
			return !strings.ContainsRune(others, c)
		}
	}
}
