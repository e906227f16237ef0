package ingest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// maxListed bounds the faults a 400 lists.
const maxListed = 100

// eventFault is what is wrong with one event, or with the request as a whole.
type eventFault struct {
	Index  *int   `json:"index,omitempty"` // of the event, from 0
	Reason string `json:"reason"`          // stable
	Error  string `json:"error"`
}

// fault is a refusal on its way to the sender.
type fault struct {
	status int
	header http.Header
	Errors []eventFault `json:"errors"`
	// More counts the events at fault beyond those listed.
	More int `json:"more,omitempty"`
}

func faultOf(status int, reason, text string) *fault {
	return &fault{status: status, Errors: []eventFault{{Reason: reason, Error: text}}}
}

func notAllowed(r *http.Request, allow string) *fault {
	f := faultOf(http.StatusMethodNotAllowed, "method", fmt.Sprintf("%s is not allowed here: use %s", short(r.Method), allow))
	f.header = http.Header{"Allow": {allow}}
	return f
}

func unavailable(reason, text string) *fault {
	f := faultOf(http.StatusServiceUnavailable, reason, text)
	f.header = http.Header{"Retry-After": {strconv.Itoa(retryAfter)}}
	return f
}

// add lists what is wrong with event index.
func (f *fault) add(index int, reason, text string) {
	if len(f.Errors) >= maxListed {
		f.More++
		return
	}
	f.Errors = append(f.Errors, eventFault{Index: &index, Reason: reason, Error: text})
}

func (f *fault) write(w http.ResponseWriter) {
	for name, values := range f.header {
		w.Header()[name] = values
	}
	writeJSON(w, f.status, f)
}

// writeJSON answers. A sender that is gone by now is nobody's problem: the
// events are stored, and sending them again is safe.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
