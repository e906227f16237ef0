package api

import (
	"context"
	_ "embed" // the description
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/terse"
	"keyfold/sink/ledger"
	"keyfold/source/ingest"
)

// Ledger is what the API reads and writes beside decisions.
type Ledger interface {
	Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error)
	Decision(ctx context.Context, id uuid.UUID) (*notify.Decided, error)
	Decisions(ctx context.Context, ids []uuid.UUID) ([]notify.Decided, error)
	Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error]
	SetPreferences(ctx context.Context, user string, own notify.Preferences) error
	Forget(ctx context.Context, user string, at engine.Millis) error
}

// Decider decides in the process. Verdicts are aligned with events.
type Decider interface {
	Decide(ctx context.Context, events []*notify.Notification) ([]processor.Verdict, error)
}

// Publisher hands events to the workers.
type Publisher interface {
	// Publish answers once it is known of each event whether the broker keeps it: nil,
	// an error of kind configuration where it is to be set up, [engine.ErrUnknown], or
	// another transient error. Aligned with events.
	Publish(ctx context.Context, events []*notify.Notification) []error
}

// Repeats remembers which events the broker has confirmed, and may forget them at any
// time: what it does not know, the ledger or the workers do.
type Repeats interface {
	// Lookup is aligned with events. A failure is the answer unknown.
	Lookup(ctx context.Context, events []notify.Posting) []notify.Repeat
	// Confirmed is told of events that the broker keeps. It does not wait.
	Confirmed(events []notify.Posting)
}

// Ports is what the API works with: either a Decider or a Publisher.
type Ports struct {
	Ledger    Ledger
	Decider   Decider
	Publisher Publisher
	Repeats   Repeats        // beside a Publisher; nil: the ledger is asked for each event
	Reports   notify.Reports // nil: deliveries are not reported here
	Erases    bool           // users are erased here
	Sets      notify.Sets    // of previews; nil: they are not served
	// Ready returns why notifications cannot be taken now, or nil.
	Ready func(context.Context) error
	Stop  context.Context // its end ends waiting for decisions; nil: it never ends
	Log   *slog.Logger
}

// API answers requests. It implements [ingest.Application].
type API struct {
	ports   Ports
	rest    atomic.Int64 // Unix nanoseconds until which the ledger is not asked before a publish
	outage  terse.Fault  // of the ledger, as requests met it before a publish
	waiting atomic.Int64 // requests that wait for their decisions
	counts  Stats
}

// New returns the API over its ports.
func New(ports Ports) *API {
	if ports.Log == nil {
		ports.Log = slog.New(slog.DiscardHandler)
	}
	if ports.Stop == nil {
		ports.Stop = context.Background()
	}
	ports.Log = ports.Log.With("component", "notify")
	return &API{ports: ports}
}

// Ready implements [ingest.Application].
func (a *API) Ready(ctx context.Context) error { return a.ports.Ready(ctx) }

// Paths.
const (
	NotificationsPath = "/v1/notifications"
	decisionsPath     = "/v1/decisions/"
	deliveriesPath    = "/v1/deliveries"
	usersPath         = "/v1/users/"
	openAPIPath       = "/openapi.json"
)

//go:embed openapi.json
var openAPI []byte

// Serve implements [ingest.Application].
func (a *API) Serve(r *ingest.Request) *ingest.Answer {
	path := r.URL.Path
	switch {
	case path == NotificationsPath:
		return posting(r, ingest.ScopeSend, a.post)
	case strings.HasPrefix(path, NotificationsPath+"/"):
		return reading(r, func() *ingest.Answer { return a.turns(r, strings.TrimPrefix(path, NotificationsPath+"/")) })
	case path == previewPath && a.ports.Sets != nil:
		return posting(r, ingest.ScopeRead, a.preview)
	case strings.HasPrefix(path, decisionsPath):
		return reading(r, func() *ingest.Answer { return a.decision(r, strings.TrimPrefix(path, decisionsPath)) })
	case path == deliveriesPath && a.ports.Reports != nil:
		return posting(r, ingest.ScopeDeliver, a.deliveries)
	case strings.HasPrefix(path, usersPath):
		return a.user(r)
	case path == openAPIPath && a.ports.Publisher != nil:
		return reading(r, func() *ingest.Answer { return ok(json.RawMessage(openAPI)) })
	default:
		return noSuchPath()
	}
}

func noSuchPath() *ingest.Answer {
	return refuse(http.StatusNotFound, "", "not_found", "no such path: notifications go to POST "+NotificationsPath)
}

// posting serves a path that takes POST alone.
func posting(r *ingest.Request, scope ingest.Scope, serve func(*ingest.Request) *ingest.Answer) *ingest.Answer {
	if r.Method != http.MethodPost {
		return ingest.RefuseMethod(r, http.MethodPost)
	}
	if refused := r.Require(scope); refused != nil {
		return refused
	}
	return serve(r)
}

// reading serves a path that is only read.
func reading(r *ingest.Request, serve func() *ingest.Answer) *ingest.Answer {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return ingest.RefuseMethod(r, "GET, HEAD")
	}
	if refused := r.Require(ingest.ScopeRead); refused != nil { // the description needs no token: it has all scopes
		return refused
	}
	return serve()
}

func ok(body any) *ingest.Answer { return &ingest.Answer{Status: http.StatusOK, Body: body} }

// refuse answers with one fault.
func refuse(status int, field, reason, text string) *ingest.Answer {
	return ingest.Refuse(status, ingest.Fault{Field: field, Reason: reason, Error: text})
}

// unread answers where the ledger could not be read or written. Where there is a
// Publisher, notifications are taken meanwhile.
func (a *API) unread(err error, text string) *ingest.Answer {
	reason := "store_failed"
	if errors.Is(err, engine.ErrAway) {
		reason = "store_away"
	}
	answer := ingest.Unavailable(reason, text, err)
	answer.Beside = a.ports.Publisher != nil
	return answer
}
