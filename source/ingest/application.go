package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"keyfold/engine"
)

// Application answers requests to paths of its own, behind the same access control
// as the API of events: see [NewApplication].
type Application interface {
	// Serve answers a request; nil: there is no such path.
	Serve(r *Request) *Answer
	// Ready returns why requests cannot be answered now, or nil. It is called once
	// a second at most, for /readyz.
	Ready(ctx context.Context) error
}

// Answer is what an [Application] answers.
type Answer struct {
	Status int
	Body   any         // sent as JSON
	Header http.Header // beside those of every answer; may be nil
	Cause  error       // for the log, never sent
	// Beside says of an answer of 503 that requests of other kinds may do: it does not
	// end the readiness.
	Beside bool
}

// Fault is what is wrong with one event of a request, or with the request as a whole.
type Fault = eventFault

// Refuse answers with faults, of which at least one is given. Only so many are listed
// as a sender reads; the others are counted.
func Refuse(status int, faults ...Fault) *Answer {
	more := max(0, len(faults)-maxListed)
	return &Answer{Status: status, Body: refusal{Errors: faults[:len(faults)-more], More: more}}
}

// RefuseMethod answers a request whose method a path does not take.
func RefuseMethod(r *Request, allow string) *Answer { return answerOf(refuseMethod(r.Request, allow)) }

// Unavailable answers that the request may be sent again after a moment.
func Unavailable(reason, text string, cause error) *Answer {
	a := answerOf(unavailable(reason, text))
	a.Cause = cause
	return a
}

// NewApplication returns a handler that answers /livez and /readyz itself and leaves
// all other paths to an application.
func NewApplication(app Application, log *slog.Logger) *Handler {
	h := NewHandler(nil, log)
	h.app, h.log = app, log.With("component", "notify")
	h.texts = texts{
		cannot: "requests cannot be answered", failed: "requests refused: a server that they need failed",
		hint: "do what the error says; requests that need it are answered 503 until then",
	}
	h.ReadyWhen(app.Ready)
	return h
}

// Request is a request to an [Application].
type Request struct {
	*http.Request
	handler *Handler
	writer  http.ResponseWriter
	visitor visitor
	share   reservation
	slot    bool
	batch   batch // that Each has read
}

// Read returns the whole body. It is part of the request's memory.
func (r *Request) Read() ([]byte, *Answer) {
	body, refused := readBody(r.writer, r.Request, &r.share)
	if refused == nil && !r.enter() {
		refused = busy()
	}
	if refused != nil {
		return nil, answerOf(refused)
	}
	return body, nil
}

// enter takes the request's slot, or reports that there is none.
func (r *Request) enter() bool {
	r.slot = r.slot || r.handler.slots.take(r.visitor.key, 1)
	return r.slot
}

// Each calls do with the text of every event of the body: one JSON object, an array
// of them, or NDJSON. A fault between the events is the last text's error.
func (r *Request) Each(do func(index int, text []byte, err error)) *Answer {
	lines, refused := isNDJSON(r.Request)
	if refused != nil {
		return answerOf(refused)
	}
	body, a := r.Read()
	if a != nil {
		return a
	}
	r.batch = batch{body: body, lines: lines, now: time.Now()}
	if refused := r.batch.each(do); refused != nil {
		return answerOf(refused)
	}
	return nil
}

// Separable reports whether the events that Each has read are told apart for certain
// also where some are at fault: one cannot tell where an element of an array ends that
// is no JSON as a whole.
func (r *Request) Separable() bool { return r.batch.separable() }

// Partial reads ?partial, as for events: whether the good events of a request go on
// where others are at fault.
func (r *Request) Partial() (bool, *Answer) {
	partial, refused := isPartial(r.Request)
	if refused != nil {
		return false, answerOf(refused)
	}
	return partial, nil
}

// JSON refuses a content type that a web page of another site may send.
func (r *Request) JSON() *Answer {
	if _, refused := isNDJSON(r.Request); refused != nil {
		return answerOf(refused)
	}
	return nil
}

func answerOf(a *reply) *Answer {
	return &Answer{Status: a.status, Body: a.body, Header: a.header, Cause: a.cause}
}

// serveApplication lets the application answer.
func (h *Handler) serveApplication(w http.ResponseWriter, r *http.Request, sender visitor) *reply {
	request := &Request{Request: r, handler: h, writer: w, visitor: sender, share: reservation{from: h.memory, sender: sender.key}}
	defer func() {
		request.share.release()
		if request.slot {
			h.slots.give(sender.key, 1)
		}
	}()
	// One with a body enters only once the body is read.
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && !request.enter() {
		return busy()
	}
	a := h.app.Serve(request)
	switch {
	case a == nil:
		return refuse(http.StatusNotFound, "not_found", "no such path")
	case a.Status != http.StatusServiceUnavailable:
		h.ready.stored(nil)
	case r.Context().Err() != nil:
		a.Cause = errSenderLeft
	case !a.Beside && a.Cause != nil && !errors.Is(a.Cause, errSenderLeft) && engine.KindOf(a.Cause) != engine.Permanent:
		h.ready.stored(a.Cause)
	}
	return &reply{status: a.Status, header: a.Header, body: a.Body, cause: a.Cause}
}
