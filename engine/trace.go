package engine

import (
	"log/slog"
	"regexp"
	"strings"
)

// Trace names the request that an event came with. Its fields are "" where the request
// had no such header.
type Trace struct {
	Parent    string // traceparent; source: W3C Trace Context, section 3.2
	State     string // tracestate; section 3.3
	RequestID string // X-Request-Id
}

// Headers of a trace, in HTTP requests, in the outbox and in messages.
const (
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
	HeaderRequestID   = "X-Request-Id"
)

const (
	maxTraceState = 512
	maxRequestID  = 128
)

var (
	traceParent = regexp.MustCompile(`^(?:[0-9a-e][0-9a-f]|f[0-9a-e])-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	traceState  = regexp.MustCompile(`^[\x20-\x7e]+$`) // a bound of 512 in here would cost each start 10 ms
	requestID   = regexp.MustCompile(`^[0-9A-Za-z._:=+/-]+$`)
)

// TraceOf reads a trace from headers, of which get returns one by its name. It leaves
// out what is malformed, and a tracestate without a traceparent; nil where nothing is
// left.
func TraceOf(get func(name string) string) *Trace {
	var t Trace
	if parent := get(HeaderTraceParent); parent != "" && traceParent.MatchString(parent) && !hasZeroID(parent) {
		t.Parent = parent
		if state := get(HeaderTraceState); len(state) <= maxTraceState && traceState.MatchString(state) {
			t.State = state
		}
	}
	if id := get(HeaderRequestID); IsRequestID(id) {
		t.RequestID = id
	}
	if t == (Trace{}) {
		return nil
	}
	return &t
}

func hasZeroID(parent string) bool {
	return strings.Trim(parent[3:35], "0") == "" || strings.Trim(parent[36:52], "0") == ""
}

// IsRequestID reports whether an id can stand in a log as it is: UUIDs, ULIDs, trace
// contexts and base64 can.
func IsRequestID(id string) bool { return len(id) <= maxRequestID && requestID.MatchString(id) }

// Headers returns the trace's headers by their names; nil of a nil trace.
func (t *Trace) Headers() map[string]string {
	if t == nil {
		return nil
	}
	headers := map[string]string{}
	for name, value := range map[string]string{HeaderTraceParent: t.Parent, HeaderTraceState: t.State, HeaderRequestID: t.RequestID} {
		if value != "" {
			headers[name] = value
		}
	}
	return headers
}

// LogAttrs returns trace_id and request_id for a log, as far as there are any.
func (t *Trace) LogAttrs() (attrs []slog.Attr) {
	if t == nil {
		return nil
	}
	if t.Parent != "" {
		attrs = append(attrs, slog.String("trace_id", t.Parent[3:35]))
	}
	if t.RequestID != "" {
		attrs = append(attrs, slog.String("request_id", t.RequestID))
	}
	return attrs
}
