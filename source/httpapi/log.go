package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"keyfold/engine"
	"keyfold/engine/causes"
)

// report logs an answer, never what the request held.
func (h *Handler) report(r *http.Request, a *Answer, id string, took time.Duration, admitted bool) {
	level := slog.LevelDebug
	if admitted && isInfo(a.Status) {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("request_id", id), slog.String("remote", r.RemoteAddr), slog.String("method", start(r.Method)),
		slog.String("path", start(r.URL.Path)), slog.Int("status", a.Status), slog.Duration("took", took),
	}
	if faults, ok := a.Body.(Refusal); ok {
		attrs = append(attrs, slog.Int("faults", len(faults.Errors)+faults.More), slog.String("reason", faults.Errors[0].Reason))
	}
	switch {
	case a.Cause == nil || errors.Is(a.Cause, errSenderLeft):
		h.log.LogAttrs(context.Background(), level, "request answered", attrs...)
	case engine.KindOf(a.Cause) == engine.Permanent:
		attrs = append(attrs, slog.Any("error", a.Cause), slog.String("hint", "see whether the store's tables are those of this version"))
		h.storeRefusals.Add("", func(n int) {
			h.log.LogAttrs(context.Background(), slog.LevelError, "requests refused: the store does not take them", append(attrs, slog.Int("count", n))...)
		})
	default:
		h.logOutage(h.about.Failed, a.Cause, attrs...)
	}
}

// logOutage logs an outage of the store when it begins: every request meets it.
func (h *Handler) logOutage(text string, cause error, attrs ...slog.Attr) {
	level := slog.LevelDebug
	if h.outage.Begins(cause) {
		level = slog.LevelError
	}
	attrs = append(attrs, slog.String("kind", engine.KindOf(cause).String()), slog.Any("error", cause),
		slog.String("hint", causes.Hint(cause, h.about.Then)))
	h.log.LogAttrs(context.Background(), level, text, attrs...)
}

// logRecovery logs the end of an outage.
func (h *Handler) logRecovery() {
	if lasted, was := h.outage.Ends(); was {
		h.log.Info(h.about.Again, slog.Duration("away_for", lasted))
	}
}

// logRefusal logs a request that was not let in, and those refused alike once a
// minute: any client can cause them in any number.
func (h *Handler) logRefusal(r *http.Request, a *Answer) {
	faults, ok := a.Body.(Refusal)
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
