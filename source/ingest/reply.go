package ingest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"keyfold/engine"
)

// maxListed bounds the events at fault that a refusal describes.
const maxListed = 100

// retryAfter is what a 503 asks the sender to wait.
const retryAfter = 2 * time.Second

// reply is an answer on its way to the sender.
type reply struct {
	status int
	header http.Header // beside those of every answer; may be nil
	body   any         // sent as JSON
	cause  error       // for the log, never sent
}

// eventFault is what is wrong with one event, or with the request as a whole.
type eventFault struct {
	Index  *int   `json:"index,omitempty"` // of the event, from 0
	Field  string `json:"field,omitempty"` // of the event
	Reason string `json:"reason"`          // stable
	Error  string `json:"error"`
}

// refusal is the body of an answer that is neither 2xx nor partial.
type refusal struct {
	Errors []eventFault `json:"errors"`
	// More counts the events at fault beyond those listed.
	More int `json:"more,omitempty"`

	further int // of Errors, those behind the first one of their event
}

// refuse answers with one fault of the request as a whole.
func refuse(status int, reason, text string) *reply {
	return &reply{status: status, body: refusal{Errors: []eventFault{{Reason: reason, Error: text}}}}
}

func refuseMethod(r *http.Request, allow string) *reply {
	a := refuse(http.StatusMethodNotAllowed, "method", fmt.Sprintf("%s is not allowed here: use %s", short(r.Method), allow))
	a.header = http.Header{"Allow": {allow}}
	return a
}

func unavailable(reason, text string) *reply {
	return later(http.StatusServiceUnavailable, retryAfter, reason, text)
}

// later refuses until wait has passed. Retry-After counts whole seconds.
func later(status int, wait time.Duration, reason, text string) *reply {
	a := refuse(status, reason, text)
	seconds := (wait + time.Second - 1) / time.Second
	a.header = http.Header{"Retry-After": {strconv.Itoa(int(max(1, seconds)))}}
	return a
}

// add counts a fault of event index, and returns whether it is among those that
// are described.
func (f *refusal) add(index int, err error) bool {
	if len(f.Errors)-f.further >= maxListed {
		f.More++
		return false
	}
	f.append(index, err)
	return true
}

func (f *refusal) append(index int, err error) {
	f.Errors = append(f.Errors, eventFault{Index: &index, Field: engine.FieldOf(err), Reason: engine.ReasonOf(err), Error: err.Error()})
}

// addEvent counts all faults of event index, and returns whether the first one is
// described.
func (f *refusal) addEvent(index int, all []error) bool {
	if !f.add(index, all[0]) {
		return false
	}
	for _, err := range all[1:] {
		f.append(index, err)
		f.further++
	}
	return true
}

// size is how many events are at fault.
func (f *refusal) size() int { return len(f.Errors) - f.further + f.More }

// write sends the answer. Write errors are ignored: the client has disconnected,
// its events are stored, and sending them again is safe.
func (a *reply) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}

// start cuts off what a sender wrote: it may be of any length.
func start(s string) string { return s[:min(len(s), 64)] }

// short quotes the start of what a sender wrote.
func short(s string) string { return strconv.Quote(start(s)) }
