package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"keyfold/engine"
)

// admission names the sender of a request, or refuses the request.
type admission func(*http.Request) (sender visitor, refused *reply)

// ServeHTTP answers a request without access control. The sender is its address.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(r *http.Request) (visitor, *reply) { return visitor{addressOf(r), whole}, nil })
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
	a.write(w)

	took := time.Since(started)
	if r.URL.Path == eventsPath || h.app != nil && r.Method == http.MethodPost {
		h.stats.Latency.Observe(took)
	}
	if errors.Is(a.cause, errSenderLeft) {
		h.stats.Abandoned.Add(1)
	} else {
		h.stats.statuses[a.status].Add(1)
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

// report logs an answer, never what the request held.
func (h *Handler) report(r *http.Request, a *reply, id string, took time.Duration, admitted bool) {
	level := slog.LevelDebug
	if admitted && isInfo(a.status) {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("request_id", id), slog.String("remote", r.RemoteAddr), slog.String("method", start(r.Method)),
		slog.String("path", start(r.URL.Path)), slog.Int("status", a.status), slog.Duration("took", took),
	}
	if faults, ok := a.body.(refusal); ok {
		attrs = append(attrs, slog.Int("faults", faults.size()), slog.String("reason", faults.Errors[0].Reason))
	}
	switch {
	case a.cause == nil || errors.Is(a.cause, errSenderLeft):
		h.log.LogAttrs(context.Background(), level, "request answered", attrs...)
	case engine.KindOf(a.cause) == engine.Permanent:
		attrs = append(attrs, slog.Any("error", a.cause), slog.String("hint", "see whether the store's tables are those of this version"))
		h.storeRefusals.Add("", func(n int) {
			h.log.LogAttrs(context.Background(), slog.LevelError, "events refused: the store does not take them", append(attrs, slog.Int("count", n))...)
		})
	default:
		h.logOutage(h.texts.failed, a.cause, attrs...)
	}
}

// logOutage logs an outage of the store when it begins: every request meets it.
func (h *Handler) logOutage(text string, cause error, attrs ...slog.Attr) {
	level := slog.LevelDebug
	if h.outage.Begins(cause) {
		level = slog.LevelError
	}
	attrs = append(attrs, slog.String("kind", engine.KindOf(cause).String()), slog.Any("error", cause),
		slog.String("hint", h.texts.hint))
	h.log.LogAttrs(context.Background(), level, text, attrs...)
}

// logRecovery logs the end of an outage.
func (h *Handler) logRecovery() {
	if lasted, was := h.outage.Ends(); was {
		h.log.Info("events are stored again", slog.Duration("away_for", lasted))
	}
}

// logRefusal logs a request that was not let in, and those refused alike once a
// minute: any client can cause them in any number.
func (h *Handler) logRefusal(r *http.Request, a *reply) {
	faults, ok := a.body.(refusal)
	if !ok {
		return
	}
	reason, address := faults.Errors[0].Reason, addressOf(r)
	h.refusals.Add(reason, func(n int) {
		h.log.Warn("requests refused", slog.Int("count", n), slog.String("reason", reason), slog.String("remote", address),
			slog.String("hint", "see which sender it is; its requests are refused until it is corrected"))
	})
}

// closeLog writes the lines that are gathered.
func (h *Handler) closeLog() {
	h.storeRefusals.Close()
	h.refusals.Close()
}

// isInfo reports whether an answer is logged at INFO: refusals that a sender's
// developer has to look into. Clients without a token can cause the other
// refusals in any number: each is logged at DEBUG, see [Handler.logRefusal].
func isInfo(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}
