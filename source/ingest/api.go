package ingest

import (
	"context"
	_ "embed" // the description
	"net/http"
	"strconv"
	"strings"
	"time"

	"keyfold/engine/profile"
	"keyfold/source/httpapi"
)

// StoreTimeout is how long a request waits for the store.
const StoreTimeout = 20 * time.Second

// eventsPath is where events are posted.
const eventsPath = "/v1/events"

// openAPI describes every path, status and field that is answered.
//
//go:embed openapi.json
var openAPI []byte

// withTypes returns openAPI with the event types that the process knows.
func withTypes() []byte {
	names := make([]string, len(profile.EventTypes()))
	for i, t := range profile.EventTypes() {
		names[i] = strconv.Quote(t.String())
	}
	const field = `"event_type": {"type": "string", "enum": [`
	before, list, _ := strings.Cut(string(openAPI), field)
	_, behind, _ := strings.Cut(list, "]")
	return []byte(before + field + strings.Join(names, ", ") + "]" + behind)
}

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
	Add(ctx context.Context, entries []profile.Entry) (fresh []bool, err error)
}

// API is the [httpapi.Application] that takes events.
type API struct {
	store Store
	ready func(context.Context) error
	stats Stats
}

// New returns the API on a store. ready returns why events cannot be stored now, or nil.
// Without it, /readyz depends on recent requests only.
func New(store Store, ready func(context.Context) error) *API {
	return &API{store: store, ready: ready}
}

// About implements [httpapi.Application].
func (a *API) About() httpapi.About {
	return httpapi.About{
		OpenAPI: withTypes(),
		Missing: "no such path: events go to POST " + eventsPath + ", /openapi.json describes what there is",
		Cannot:  "events cannot be stored", Failed: "events refused: the store failed",
		Then: "requests are answered 503 until then", Again: "events are stored again",
	}
}

// Ready implements [httpapi.Application].
func (a *API) Ready(ctx context.Context) error {
	if a.ready == nil {
		return nil
	}
	return a.ready(ctx)
}

// Serve implements [httpapi.Application].
func (a *API) Serve(r *httpapi.Request) *httpapi.Answer {
	switch {
	case r.URL.Path != eventsPath:
		return nil
	case r.Method != http.MethodPost:
		return httpapi.RefuseMethod(r.Method, http.MethodPost)
	}
	if refused := r.Require(httpapi.ScopeSend); refused != nil {
		return refused
	}
	if r.Limited() {
		return refuse(http.StatusForbidden, "token_limited", "the token is for notifications of some sources or types, and these are events: "+
			"use another token, or take source= and type= away behind it in "+httpapi.TokenSettings())
	}
	partial, refused := r.Partial()
	if refused != nil {
		return refused
	}
	o, refused := readAll(r)
	if refused != nil {
		return refused
	}
	return a.addAll(r, &o, partial)
}

// refuse answers with one fault of the request as a whole.
func refuse(status int, reason, text string) *httpapi.Answer {
	return httpapi.Refuse(status, httpapi.Fault{Reason: reason, Error: text})
}
