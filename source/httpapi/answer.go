package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// MaxListed bounds the items at fault that an answer describes.
const MaxListed = 100

// retryAfter is what a 503 asks the sender to wait.
const retryAfter = 2 * time.Second

// Answer is an answer on its way to the sender.
type Answer struct {
	Status int
	Body   any         // sent as JSON
	Page   []byte      // sent in place of Body; nil: none
	Type   string      // of Page; "": HTML
	Header http.Header // beside those of every answer; may be nil
	Cause  error       // for the log, never sent
	// Beside says that the answer did not need what makes the application ready: an
	// answer of 503 does not end the readiness, and another does not bring it back.
	Beside bool
}

// Fault is what is wrong with one item of a request, or with the request as a whole.
type Fault struct {
	Index  *int   `json:"index,omitempty"` // of the item, from 0
	Field  string `json:"field,omitempty"` // of the item
	Reason string `json:"reason"`          // stable
	Error  string `json:"error"`
}

// Refusal is the body of an answer that is neither 2xx nor partial.
type Refusal struct {
	Errors []Fault `json:"errors"`
	More   int     `json:"more,omitempty"` // beyond those listed
}

// Refuse answers with faults, of which at least one is given. The first [MaxListed] are
// listed, and the others are counted.
func Refuse(status int, faults ...Fault) *Answer {
	more := max(0, len(faults)-MaxListed)
	return &Answer{Status: status, Body: Refusal{Errors: faults[:len(faults)-more], More: more}}
}

// refuse answers with one fault of the request as a whole.
func refuse(status int, reason, text string) *Answer {
	return Refuse(status, Fault{Reason: reason, Error: text})
}

// RefuseMethod answers a request whose method its path does not take.
func RefuseMethod(method, allow string) *Answer {
	a := refuse(http.StatusMethodNotAllowed, "method", fmt.Sprintf("%s is not allowed here: use %s", short(method), allow))
	a.Header = http.Header{"Allow": {allow}}
	return a
}

// Unavailable answers that the request may be sent again after a moment. Without a cause
// the log does not tell of it.
func Unavailable(reason, text string, cause error) *Answer {
	a := later(http.StatusServiceUnavailable, retryAfter, reason, text)
	a.Cause = cause
	return a
}

// later refuses until wait has passed. Retry-After counts whole seconds.
func later(status int, wait time.Duration, reason, text string) *Answer {
	a := refuse(status, reason, text)
	seconds := (wait + time.Second - 1) / time.Second
	a.Header = http.Header{"Retry-After": {strconv.Itoa(int(max(1, seconds)))}}
	return a
}

// write sends the answer. Write errors are ignored: the client has disconnected,
// what it sent is stored, and sending it again is safe.
func (a *Answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	if a.Page != nil {
		w.Header().Set("Content-Type", cmp.Or(a.Type, "text/html; charset=utf-8"))
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Page)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_ = json.NewEncoder(w).Encode(a.Body)
}

// start cuts off what a sender wrote: it may be of any length.
func start(s string) string { return s[:min(len(s), 64)] }

// short quotes the start of what a sender wrote.
func short(s string) string { return strconv.Quote(start(s)) }
