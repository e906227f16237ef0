package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/terse"
)

// Limits of a request.
const (
	MaxRequestBytes = 8 << 20
	MaxItems        = 10_000
	// MaxInFlightBytes bounds what all requests together hold. One sender alone
	// gets a half.
	MaxInFlightBytes = 128 << 20
)

// Paths that the handler answers itself.
const (
	livePath    = "/livez"
	readyPath   = "/readyz"
	openAPIPath = "/openapi.json"
)

// errSenderLeft is the cause of an answer to a closed connection.
var errSenderLeft = errors.New("the sender left before the answer")

// Handler is an application without access control, which [NewServer] adds.
type Handler struct {
	app    Application
	about  About
	ready  readiness
	log    *slog.Logger
	stats  Stats
	memory *shares // bytes of requests
	slots  *shares // one for each request whose body is read

	outage        terse.Fault
	failing       atomic.Bool   // a request met the outage: only one that succeeds ends it
	storeRefusals terse.Repeats // requests that the store takes never
	refusals      terse.Repeats // requests that were not let in
}

// NewHandler returns a handler that answers /livez, /readyz and /openapi.json itself and
// leaves all other paths to an application, whose component log names.
func NewHandler(app Application, log *slog.Logger) *Handler {
	about := app.About()
	return &Handler{
		app: app, about: about, log: log,
		ready:  readiness{look: app.Ready},
		memory: newShares(MaxInFlightBytes), slots: newShares(int64(DefaultConfig().MaxConcurrent)),
		stats: Stats{Latency: newLatency()},
	}
}

// Ready returns why requests cannot be answered now, or nil. /readyz reports it. It logs
// where that begins and ends.
func (h *Handler) Ready() error {
	err := h.ready.fault()
	if err != nil {
		h.logOutage("not ready: "+h.about.Cannot, err)
	} else if !h.failing.Load() {
		h.logRecovery()
	}
	return err
}

// Stats returns the counters.
func (h *Handler) Stats() *Stats { return &h.stats }

// admission names the sender of a request, or refuses the request.
type admission func(*http.Request) (sender visitor, refused *Answer)

// ServeHTTP answers a request without access control. The sender is its address.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(r *http.Request) (visitor, *Answer) { return visitor{key: addressOf(r), may: whole}, nil })
}

// answer lets a request in or not, answers, counts and logs.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, enter admission) {
	started := time.Now()
	h.stats.InFlight.Add(1)
	defer h.stats.InFlight.Add(-1)
	id := requestID(r)
	setHeaders(w.Header(), id, r.TLS != nil)

	sender, a := enter(r)
	admitted := a == nil
	if admitted {
		a = h.route(w, r, sender)
	} else {
		h.logRefusal(r, a)
	}
	if _, refused := a.Body.(Refusal); refused && h.about.InWords != nil {
		a = h.about.InWords(r, a)
	}
	a.write(w)

	took := time.Since(started)
	if r.Method == http.MethodPost {
		h.stats.Latency.Observe(took)
	}
	if errors.Is(a.Cause, errSenderLeft) {
		h.stats.Abandoned.Add(1)
	} else {
		h.stats.statuses[a.Status].Add(1)
	}
	h.report(r, a, id, took, admitted)
}

// setHeaders sets the headers of every answer. They tell browsers that it is data
// and must not be shown as a page.
func setHeaders(header http.Header, id string, encrypted bool) {
	header.Set(requestHeader, id)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	if encrypted {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// route dispatches by the literal path. http.ServeMux would redirect a path like
// //v1/events, and its answers are not JSON.
func (h *Handler) route(w http.ResponseWriter, r *http.Request, sender visitor) *Answer {
	var serve func() *Answer
	switch path := r.URL.Path; {
	case path == livePath:
		serve = serveLive
	case path == readyPath:
		serve = h.serveReady
	case path == openAPIPath && h.about.OpenAPI != nil:
		serve = h.serveOpenAPI
	default:
		return h.serve(w, r, sender)
	}
	if !reads(r) {
		return RefuseMethod(r.Method, "GET, HEAD")
	}
	return serve()
}

// reads reports whether a request has no body and changes nothing.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// health is the body of /livez and /readyz.
type health struct {
	Status string `json:"status"`
}

func serveLive() *Answer { return &Answer{Status: http.StatusOK, Body: health{"ok"}} }

func (h *Handler) serveReady() *Answer {
	if err := h.Ready(); err != nil {
		return Unavailable("not_ready", h.about.Cannot+" now; the log says why", err)
	}
	return serveLive()
}

func (h *Handler) serveOpenAPI() *Answer {
	return &Answer{Status: http.StatusOK, Body: json.RawMessage(h.about.OpenAPI)}
}

// serve lets the application answer.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, sender visitor) *Answer {
	request := &Request{Request: r, handler: h, writer: w, visitor: sender, share: reservation{from: h.memory, sender: sender.key}}
	defer request.leave()
	// One with a body enters only once the body is read.
	if reads(r) && !request.enter() {
		return busy()
	}
	a := h.app.Serve(request)
	switch {
	case a == nil:
		return refuse(http.StatusNotFound, "not_found", cmp.Or(h.about.Missing, "no such path"))
	case a.Status == http.StatusServiceUnavailable && r.Context().Err() != nil:
		a.Cause = errSenderLeft // which says nothing about the store
	case a.Beside:
		if a.Status == http.StatusServiceUnavailable && a.Cause != nil {
			h.failing.Store(true) // for the log alone
		}
	case a.Status == http.StatusServiceUnavailable && a.Cause != nil && engine.KindOf(a.Cause) != engine.Permanent:
		h.failing.Store(true)
		h.ready.met(a.Cause)
	case a.Status < http.StatusMultipleChoices:
		h.ready.met(nil)
		if h.failing.Swap(false) {
			h.logRecovery()
		}
	}
	return a
}
