package api

import (
	"context"
	_ "embed" // the description
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/terse"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger"
	"keyfold/source/httpapi"
)

// Ledger is what the API reads and writes beside decisions.
type Ledger interface {
	Decision(ctx context.Context, id uuid.UUID) (*notify.Decided, error)
	Decisions(ctx context.Context, ids []uuid.UUID) ([]notify.Decided, error)
	preference.Store
	ledger.Merger
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

// Pages answer requests of users, who have no bearer token.
type Pages interface {
	Paths() []string
	// InWords makes a page of a refusal for programs.
	InWords(refused *httpapi.Answer) *httpapi.Answer
	Serve(r *httpapi.Request) *httpapi.Answer
}

// Ports is what the API works with: either a Decider or a Publisher.
type Ports struct {
	Ledger    Ledger
	Decider   Decider
	Publisher Publisher
	Repeats   Repeats        // beside a Publisher; nil: the ledger is asked for each event
	Reports   notify.Reports // nil: deliveries are not reported here
	Erases    bool           // users are erased and merged here
	Sets      notify.Sets    // of previews; nil: they are not served
	Canceller Canceller      // nil: nothing is cancelled here
	Pages     Pages          // of users; nil: there are none
	// Ready returns why notifications cannot be taken now, or nil.
	Ready func(context.Context) error
	Stop  context.Context // its end ends waiting for decisions; nil: it never ends
	Log   *slog.Logger
}

// API answers requests. It implements [httpapi.Application].
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

// About implements [httpapi.Application]. The description is of an API with a Publisher.
func (a *API) About() httpapi.About {
	about := httpapi.About{
		Cannot: "requests cannot be answered", Failed: "requests refused: a server that they need failed",
		Then: "requests that need it are answered 503 until then", Again: "requests are answered again",
	}
	if a.ports.Publisher != nil {
		about.OpenAPI = openAPI
	}
	if a.ports.Pages != nil {
		about.Open, about.InWords = a.ports.Pages.Paths(), a.inWords
	}
	return about
}

// inWords makes a page of a refusal at a page's path that people meet.
func (a *API) inWords(r *http.Request, refused *httpapi.Answer) *httpapi.Answer {
	later := refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusServiceUnavailable
	if later && slices.Contains(a.ports.Pages.Paths(), r.URL.Path) {
		return a.ports.Pages.InWords(refused)
	}
	return refused
}

// Ready implements [httpapi.Application].
func (a *API) Ready(ctx context.Context) error { return a.ports.Ready(ctx) }

// Paths.
const (
	NotificationsPath = "/v1/notifications"
	decisionsPath     = "/v1/decisions/"
	deliveriesPath    = "/v1/deliveries"
	reportsPath       = "/v1/reports" // the same, under the name that suits what users do
	usersPath         = "/v1/users/"
)

//go:embed openapi.json
var openAPI []byte

// Serve implements [httpapi.Application]. With a Publisher, notifications are taken while
// the ledger, which all other paths need, is away.
func (a *API) Serve(r *httpapi.Request) *httpapi.Answer {
	answer := a.serve(r)
	if r.URL.Path != NotificationsPath && a.ports.Publisher != nil {
		answer.Beside = true
	}
	return answer
}

func (a *API) serve(r *httpapi.Request) *httpapi.Answer {
	path := r.URL.Path
	switch {
	case path == NotificationsPath:
		return posting(r, httpapi.ScopeSend, a.post)
	case strings.HasPrefix(path, NotificationsPath+"/"):
		return reading(r, func() *httpapi.Answer { return a.turns(r, strings.TrimPrefix(path, NotificationsPath+"/")) })
	case path == previewPath && a.ports.Sets != nil:
		return posting(r, httpapi.ScopeRead, a.preview)
	case strings.HasPrefix(path, decisionsPath):
		return reading(r, func() *httpapi.Answer { return a.decision(r, strings.TrimPrefix(path, decisionsPath)) })
	case path == cancellationsPath && a.ports.Canceller != nil:
		return posting(r, httpapi.ScopeSend, a.cancellations)
	case (path == deliveriesPath || path == reportsPath) && a.ports.Reports != nil:
		return posting(r, httpapi.ScopeDeliver, a.deliveries)
	case strings.HasPrefix(path, usersPath):
		return a.user(r)
	case a.ports.Pages != nil && slices.Contains(a.ports.Pages.Paths(), path):
		return a.ports.Pages.Serve(r)
	default:
		return noSuchPath()
	}
}

func noSuchPath() *httpapi.Answer {
	return refuse(http.StatusNotFound, "", "not_found", "no such path: notifications go to POST "+NotificationsPath)
}

// posting serves a path that takes POST alone.
func posting(r *httpapi.Request, scope httpapi.Scope, serve func(*httpapi.Request) *httpapi.Answer) *httpapi.Answer {
	if r.Method != http.MethodPost {
		return httpapi.RefuseMethod(r.Method, http.MethodPost)
	}
	if refused := r.Require(scope); refused != nil {
		return refused
	}
	return serve(r)
}

// reading serves a path that is only read.
func reading(r *httpapi.Request, serve func() *httpapi.Answer) *httpapi.Answer {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return httpapi.RefuseMethod(r.Method, "GET, HEAD")
	}
	if refused := r.Require(httpapi.ScopeRead); refused != nil {
		return refused
	}
	return serve()
}

func ok(body any) *httpapi.Answer { return &httpapi.Answer{Status: http.StatusOK, Body: body} }

// refuse answers with one fault.
func refuse(status int, field, reason, text string) *httpapi.Answer {
	return httpapi.Refuse(status, httpapi.Fault{Field: field, Reason: reason, Error: text})
}

// unread answers where the ledger could not be read or written.
func unread(err error, text string) *httpapi.Answer {
	reason := "store_failed"
	if errors.Is(err, engine.ErrAway) {
		reason = "store_away"
	}
	return httpapi.Unavailable(reason, text, err)
}
