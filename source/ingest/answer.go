package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"keyfold/engine"
)

// failureInterval is the least time between two logged failures of the store,
// because during an outage every request fails.
const failureInterval = 5 * time.Second

// admission names the sender of a request, or refuses the request.
type admission func(*http.Request) (sender string, refused *reply)

// ServeHTTP answers a request without access control. The sender is its address.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(r *http.Request) (string, *reply) { return addressOf(r), nil })
}

// answer lets a request in or not, answers, counts and logs.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, enter admission) {
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

// report logs an answer, never what the request held.
func (h *Handler) report(r *http.Request, a *reply, id string, took time.Duration) {
	level := slog.LevelDebug
	if isInfo(a.status) {
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

// isInfo reports whether an answer is logged at INFO: refusals that a sender's
// developer has to look into. Clients without a token can cause the other
// refusals in any number, so those are logged at DEBUG.
func isInfo(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}
