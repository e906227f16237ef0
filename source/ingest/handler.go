package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"keyfold/engine"
)

// Limits of a request.
const (
	MaxRequestBytes = 8 << 20
	MaxEvents       = 10_000
	// MaxInFlightBytes bounds the bodies held by all requests together.
	MaxInFlightBytes = 64 << 20
)

// retryAfter is what a 503 asks the sender to wait, in seconds.
const retryAfter = 2

// Entry is a valid event and its literal JSON text. The text is part of the
// request's memory: a store that keeps it beyond Add copies it.
type Entry struct {
	Event engine.Event
	Body  []byte
}

// Store makes events durable.
type Store interface {
	// Add stores all entries or, with an error, none, and reports which were
	// new; aligned with entries. Of several with one id the first is new.
	Add(ctx context.Context, entries []Entry) (fresh []bool, err error)
}

// Stats counts since the start. Its fields are read with Load.
type Stats struct {
	Accepted  atomic.Int64 // new events
	Duplicate atomic.Int64 // events stored before
	Refused   atomic.Int64 // requests answered with 4xx
	Failed    atomic.Int64 // requests answered with 5xx
}

// Handler serves POST /v1/events and GET /livez.
type Handler struct {
	store    Store
	log      *slog.Logger
	stats    Stats
	inFlight atomic.Int64 // bytes of bodies
}

// NewHandler returns a handler on a store.
func NewHandler(store Store, log *slog.Logger) *Handler {
	return &Handler{store: store, log: log}
}

// Stats returns the handler's counters.
func (h *Handler) Stats() *Stats { return &h.stats }

// ServeHTTP routes by the literal path: there is nothing to clean or redirect.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var f *fault
	switch r.URL.Path {
	case "/v1/events":
		f = h.serveEvents(w, r)
	case "/livez":
		f = serveLive(w, r)
	default:
		f = faultOf(http.StatusNotFound, "not_found", "no such path: events go to POST /v1/events")
	}
	if f == nil {
		return
	}
	if f.status >= http.StatusInternalServerError {
		h.stats.Failed.Add(1)
	} else {
		h.stats.Refused.Add(1)
	}
	f.write(w)
}

func serveLive(w http.ResponseWriter, r *http.Request) *fault {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return notAllowed(r, "GET, HEAD")
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) *fault {
	if r.Method != http.MethodPost {
		return notAllowed(r, http.MethodPost)
	}
	lines, f := isNDJSON(r)
	if f != nil {
		return f
	}
	body, release, f := h.readBody(w, r)
	defer release()
	if f != nil {
		return f
	}
	entries, f := parse(body, lines, time.Now())
	if f != nil {
		return f
	}
	return h.add(w, r, entries)
}

// add stores the entries and answers.
func (h *Handler) add(w http.ResponseWriter, r *http.Request, entries []Entry) *fault {
	answer := accepted{MessageIDs: make([]string, len(entries))}
	for i := range entries {
		answer.MessageIDs[i] = entries[i].Event.MessageID
	}
	var fresh []bool
	if len(entries) > 0 {
		var err error
		if fresh, err = h.store.Add(r.Context(), entries); err != nil {
			h.log.Error("events refused: the store failed; senders are told to try again",
				slog.Int("events", len(entries)), slog.Any("error", err))
			return unavailable("store_failed", "the events could not be stored; send them again")
		}
	}
	for _, isNew := range fresh {
		if isNew {
			answer.Accepted++
		}
	}
	answer.Duplicate = len(entries) - answer.Accepted
	h.stats.Accepted.Add(int64(answer.Accepted))
	h.stats.Duplicate.Add(int64(answer.Duplicate))
	writeJSON(w, http.StatusAccepted, answer)
	return nil
}

type accepted struct {
	Accepted   int      `json:"accepted"`
	Duplicate  int      `json:"duplicate"`
	MessageIDs []string `json:"message_ids"` // in the order of the request
}

// isNDJSON reads the content type. Others are refused, above all those a web
// page may send to any site without asking.
func isNDJSON(r *http.Request) (bool, *fault) {
	contentType := r.Header.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(contentType)
	charset, given := parameters["charset"]
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case err != nil || media != "application/json" && media != "application/x-ndjson":
		return false, faultOf(http.StatusUnsupportedMediaType, "content_type",
			fmt.Sprintf("Content-Type is %s: send application/json or application/x-ndjson", short(contentType)))
	case given && !strings.EqualFold(charset, "utf-8"):
		return false, faultOf(http.StatusUnsupportedMediaType, "charset",
			fmt.Sprintf("charset is %s: send utf-8", short(charset)))
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return false, faultOf(http.StatusUnsupportedMediaType, "content_encoding",
			fmt.Sprintf("Content-Encoding is %s: send the body uncompressed", short(encoding)))
	}
	return media == "application/x-ndjson", nil
}

// short quotes the start of what a sender wrote.
func short(s string) string { return strconv.Quote(s[:min(len(s), 64)]) }
