package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"keyfold/engine"
)

// failureInterval is how often failures of the store are logged at most: an
// outage meets every request.
const failureInterval = 5 * time.Second

// entrance decides who may pass, and names the sender.
type entrance func(*http.Request) (sender string, refused *reply)

// ServeHTTP answers whoever asks.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(r *http.Request) (string, *reply) { return addressOf(r), nil })
}

// answer lets a request in or not, answers, counts and logs.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, enter entrance) {
	started := time.Now()
	h.stats.InFlight.Add(1)
	defer h.stats.InFlight.Add(-1)
	id := requestID(r)
	setHeaders(w.Header(), id, r.TLS != nil)

	sender, a := enter(r)
	if a == nil {
		a = h.route(w, r, sender)
	}
	a.write(w)

	took := time.Since(started)
	if r.URL.Path == eventsPath {
		h.stats.latency.Observe(took)
	}
	if errors.Is(a.cause, errSenderLeft) {
		h.stats.Abandoned.Add(1)
	} else {
		h.stats.statuses[a.status].Add(1)
	}
	h.report(r, a, id, took)
}

// setHeaders sets what every answer carries: it is data for a program, and no
// page of any site.
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

// report logs an answer, never what the request held.
func (h *Handler) report(r *http.Request, a *reply, id string, took time.Duration) {
	level := slog.LevelDebug
	if worthTelling(a.status) {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("request_id", id), slog.String("remote", r.RemoteAddr), slog.String("method", short(r.Method)),
		slog.String("path", short(r.URL.Path)), slog.Int("status", a.status), slog.Duration("took", took),
	}
	if faults, ok := a.body.(refusal); ok {
		attrs = append(attrs, slog.Int("faults", faults.size()), slog.String("reason", faults.Errors[0].Reason))
	}
	if a.cause != nil {
		attrs = append(attrs, slog.String("kind", engine.KindOf(a.cause).String()), slog.Any("error", a.cause))
	}
	if a.cause == nil || errors.Is(a.cause, errSenderLeft) {
		h.log.LogAttrs(context.Background(), level, "request answered", attrs...)
		return
	}
	h.failures.Do(func() { h.log.LogAttrs(context.Background(), slog.LevelError, a.problem, attrs...) })
}

// worthTelling picks the refusals that a sender's developer will ask about. Any
// stranger can cause the others, as often as they like.
func worthTelling(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}
