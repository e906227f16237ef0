package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/terse"
)

// Limits of a request.
const (
	MaxRequestBytes = 8 << 20
	MaxEvents       = 10_000
	// MaxInFlightBytes bounds what all requests together hold. One sender alone
	// gets a half.
	MaxInFlightBytes = 128 << 20
	// StoreTimeout is how long a request waits for the store.
	StoreTimeout = 20 * time.Second
)

// Paths.
const (
	eventsPath  = "/v1/events"
	livePath    = "/livez"
	readyPath   = "/readyz"
	openAPIPath = "/openapi.json"
)

// Store makes events durable. Bodies are completed with message_id and version
// where the sender left them out. They may be part of the request's memory: a store
// that keeps one beyond Add copies it.
type Store interface {
	// Add stores all entries or, with an error, none, and reports which were
	// new; aligned with entries. Of several with one id the first is new.
	//
	// A permanent error is one that sending the same events again cannot
	// cure; where it has a method Rejected() map[int]error, the entries of
	// these indexes are at fault and no others. With any other error, also
	// one of kind configuration, the sender is told to try again.
	Add(ctx context.Context, entries []engine.Entry) (fresh []bool, err error)
}

// Handler is the API without access control, which [NewServer] adds.
type Handler struct {
	store  Store
	app    Application // nil: events are served
	ready  readiness
	log    *slog.Logger
	stats  Stats
	memory *shares // bytes of requests
	slots  *shares // one for each request whose body is read

	texts         texts
	outage        terse.Fault
	notStored     atomic.Bool   // a request met the outage: only one that is stored ends it
	storeRefusals terse.Repeats // requests that the store takes never
	refusals      terse.Repeats // requests that were not let in
}

// texts are those of an outage.
type texts struct {
	cannot string // is said where the handler is not ready
	failed string // is logged where a request met the outage
	hint   string
}

// NewHandler returns a handler on a store.
func NewHandler(store Store, log *slog.Logger) *Handler {
	return &Handler{
		store: store, log: log.With("component", "ingest"),
		texts: texts{
			cannot: "events cannot be stored", failed: "events refused: the store failed",
			hint: "see that the database can be reached and written to; requests are answered 503 until then",
		},
		memory: newShares(MaxInFlightBytes), slots: newShares(int64(DefaultConfig().MaxConcurrent)),
		stats: Stats{Latency: newLatency()},
	}
}

// ReadyWhen makes /readyz ask ready, which returns why events cannot be stored
// now, or nil. ready is called once a second at most. Without ReadyWhen, /readyz
// depends on recent requests only. Call it before the handler is used.
func (h *Handler) ReadyWhen(ready func(context.Context) error) { h.ready.look = ready }

// Ready returns why events cannot be stored now, or nil. /readyz reports it. It logs
// where that begins and ends.
func (h *Handler) Ready() error {
	err := h.ready.fault()
	if err != nil {
		h.logOutage("not ready: "+h.texts.cannot, err)
	} else if !h.notStored.Load() {
		h.logRecovery()
	}
	return err
}

// Stats returns the counters.
func (h *Handler) Stats() *Stats { return &h.stats }

// route dispatches by the literal path. http.ServeMux would redirect a path like
// //v1/events, and its answers are not JSON.
func (h *Handler) route(w http.ResponseWriter, r *http.Request, sender visitor) *reply {
	switch r.URL.Path {
	case livePath:
		return onlyGet(r, serveLive)
	case readyPath:
		return onlyGet(r, h.serveReady)
	}
	if h.app != nil {
		return h.serveApplication(w, r, sender)
	}
	switch r.URL.Path {
	case eventsPath:
		return h.serveEvents(w, r, sender)
	case openAPIPath:
		return onlyGet(r, serveOpenAPI)
	default:
		return refuse(http.StatusNotFound, "not_found", "no such path: events go to POST "+eventsPath+", "+openAPIPath+" describes it")
	}
}

func onlyGet(r *http.Request, serve func(*http.Request) *reply) *reply {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return refuseMethod(r, "GET, HEAD")
	}
	return serve(r)
}

// health is the body of /livez and /readyz.
type health struct {
	Status string `json:"status"`
}

func serveLive(*http.Request) *reply { return &reply{status: http.StatusOK, body: health{"ok"}} }

func (h *Handler) serveReady(r *http.Request) *reply {
	if err := h.Ready(); err != nil {
		a := unavailable("not_ready", h.texts.cannot+" now; the log says why")
		a.cause = err
		return a
	}
	return serveLive(r)
}

func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request, sender visitor) *reply {
	if r.Method != http.MethodPost {
		return refuseMethod(r, http.MethodPost)
	}
	if refused := sender.require(ScopeSend); refused != nil {
		return refused
	}
	if refused := sender.unlimited(); refused != nil {
		return refused
	}
	partial, refused := isPartial(r)
	if refused != nil {
		return refused
	}
	lines, refused := isNDJSON(r)
	if refused != nil {
		return refused
	}
	share := reservation{from: h.memory, sender: sender.key}
	defer share.release()
	body, refused := readBody(w, r, &share)
	if refused != nil {
		return refused
	}
	// A slot is taken only now, so that a body that never ends does not occupy one.
	if !h.slots.take(sender.key, 1) {
		return busy()
	}
	defer h.slots.give(sender.key, 1)
	return h.addBatch(r, batch{body: body, lines: lines, now: time.Now()}, partial)
}

// isPartial reads the query. A misspelt value would quietly change what a
// fault in one event does to the others.
func isPartial(r *http.Request) (bool, *reply) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	given := query["partial"]
	if err == nil && len(given) == 0 {
		return false, nil
	}
	if err == nil && len(given) == 1 {
		if partial, err := strconv.ParseBool(given[0]); err == nil {
			return partial, nil
		}
	}
	return false, refuse(http.StatusBadRequest, "bad_parameter",
		fmt.Sprintf("the query is %s: send ?partial=true, ?partial=false or none", short(r.URL.RawQuery)))
}

// isNDJSON reads the content type. Others are refused, above all those a web
// page may send to any site without asking.
func isNDJSON(r *http.Request) (bool, *reply) {
	contentType := r.Header.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(contentType)
	charset, given := parameters["charset"]
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case err != nil || media != "application/json" && media != "application/x-ndjson":
		return false, refuse(http.StatusUnsupportedMediaType, "content_type",
			fmt.Sprintf("Content-Type is %s: send application/json or application/x-ndjson", short(contentType)))
	case given && !strings.EqualFold(charset, "utf-8"):
		return false, refuse(http.StatusUnsupportedMediaType, "charset",
			fmt.Sprintf("charset is %s: send utf-8", short(charset)))
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return false, refuse(http.StatusUnsupportedMediaType, "content_encoding",
			fmt.Sprintf("Content-Encoding is %s: send the body uncompressed", short(encoding)))
	}
	return media == "application/x-ndjson", nil
}
