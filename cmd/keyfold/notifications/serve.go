package notifications

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"keyfold/cmd/keyfold/app"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/internal/version"
	"keyfold/service/dashboard"
	"keyfold/service/notify/api"
	"keyfold/service/notify/broker"
	"keyfold/service/notify/page"
	"keyfold/service/notify/published"
	"keyfold/sink/ledger/postgres"
	"keyfold/source/httpapi"
	"keyfold/source/rabbit"
	"keyfold/source/repeat"
)

// serveCmd is the HTTP API.
type serveCmd struct {
	API app.APIFlags `embed:""`
}

// Service marks a command that runs until it is told to stop.
func (c *serveCmd) Service() {}

// Help is the long text.
func (c *serveCmd) Help() string {
	return `POST /v1/notifications takes one notification, an array of them, or NDJSON. It is answered with 202 once the broker
has confirmed all of them; what was decided before counts as a duplicate. With the header "Prefer: wait=2" it is
answered with the decisions, if they are made in time. Where it is answered with 503, send the request again: a
notification is decided once under its event_id. With NOTIFY_REDIS_URL most repeats are answered without PostgreSQL.

  GET /v1/notifications/EVENT_ID          all decisions of a notification, explained
  GET /v1/decisions/DECISION_ID           one decision, explained
  POST /v1/decisions/preview              decide one notification without effect
  GET /v1/users/ID/decisions              a user's decisions, newest first; ?before=INSTANT&limit=N
  GET, PUT, PATCH /v1/users/ID/preferences zone, quiet hours, topics, digests, mutes, snooze, caps
  GET /v1/users/ID/aliases                the ids that stand for a user
  PUT /v1/users/ID/aliases/ALIAS          makes another id one of a user, as ` + "`keyfold notify user merge`" + ` does
  DELETE /v1/users/ID                     erases a user, as ` + "`keyfold notify user forget`" + ` does
  POST /v1/deliveries                     what the senders report of deliveries
  GET, POST /preferences?t=TOKEN          the page on which users see and change their preferences
  GET, POST /unsubscribe?t=TOKEN          unsubscribes with one click (RFC 8058)
  GET /ui/                                pages: decisions by hour, what waits, each decision explained, sets of rules
  GET /livez, /readyz, /openapi.json

The pages at /ui/ change nothing, and with tokens need one with the scope read in each request: "keyfold dashboard" has a login.
Those of users are there with NOTIFY_LINK_KEY_FILE and NOTIFY_LINK_URL, which the workers need too: they put the links
into each message for the senders. A page needs no bearer token: its link is signed, and expires.

Example:
  NOTIFY_DATABASE_URL=postgres://user:password@127.0.0.1:5432/keyfold keyfold notify serve --http-addr 127.0.0.1:7081`
}

// Check judges the API's settings and the addresses of the servers.
func (c *serveCmd) Check(a *app.App) error {
	return errors.Join(a.CheckBroker(), a.CheckLedger(), a.CheckRules(), c.API.Check(), a.CheckRepeats(), a.Notify.Links.Check())
}

// Run serves until it is told to stop, and answers what is under way before it ends. It
// starts also while RabbitMQ or PostgreSQL is away.
func (c *serveCmd) Run(a *app.App) (err error) {
	a.LogStart("notify serve")
	config, err := c.API.Config()
	if err != nil {
		return err
	}
	sets, live, err := a.RuleSets()
	if err != nil {
		return err
	}
	ledger, err := postgres.Open(a.Notify.Ledger, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if err := app.LedgerUnreached(ledger.Check(a.Ctx)); engine.KindOf(err) == engine.Configuration {
		return err // no time cures it
	}
	if live != nil {
		stop := follow(a.Ctx, live, ledger)
		defer stop()
	}
	s := &serving{app: a, ledger: ledger, rules: live, publisher: rabbit.NewPublisher(a.Servers.RabbitMQ, a.Identity("notify api"), "publisher", rabbit.Timing{}, a.Log)}
	defer func() { err = errors.Join(err, a.ClosePublisher(s.publisher.Close)) }()
	ports := api.Ports{
		Ledger: ledger, Reports: ledger, Erases: true, Publisher: broker.NewPublisher(s.publisher), Sets: sets,
		Ready: s.look, Stop: a.Ctx, Log: a.Log,
	}
	if ports.Pages, err = pagesOf(a, ledger, sets); err != nil {
		return err
	}
	if ports.Canceller, err = canceller(a, ledger, sets); err != nil {
		return err
	}
	if s.repeats, err = openRepeats(a, &ports); err != nil {
		return err
	}
	if s.repeats != nil {
		defer func() { err = errors.Join(err, s.repeats.Close()) }()
	}
	s.api = api.New(ports)
	if s.pages, err = dashboardOf(a, ledger); err != nil {
		return err
	}
	s.handler = httpapi.NewHandler(httpapi.Join(s.api, s.pages), a.Log.With("component", "notify"))
	if s.server, err = httpapi.NewServer(config, s.handler); err != nil {
		return err
	}
	socket, err := a.Listen("notify serve", s.server, "HTTP_ADDR", config.Addr, api.NotificationsPath)
	if err != nil {
		return err
	}
	defer socket.Close()
	return a.WithAdmin(s, func() error { return s.serve(socket) })
}

// follow keeps the published set for previews, until stop is called. It is not waited for:
// notifications are taken without one.
func follow(ctx context.Context, live *published.Sets, ledger *postgres.Ledger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		_ = live.Load(ctx, ledger) // a note says so
		live.Follow(ctx)
	})
	return func() {
		cancel()
		following.Wait()
	}
}

// pagesOf returns the pages of users, nil where the settings name none.
func pagesOf(a *app.App, ledger *postgres.Ledger, sets notify.Sets) (api.Pages, error) {
	links, err := a.Notify.Links.Links(sets)
	if links == nil {
		return nil, err
	}
	return page.New(ledger, sets, links)
}

// dashboardOf returns the pages of notifications and of sets of rules, which change nothing.
func dashboardOf(a *app.App, ledger *postgres.Ledger) (*dashboard.Dashboard, error) {
	var sources dashboard.Sources
	NewPages(a, func(context.Context) (*postgres.Ledger, error) { return ledger, nil }).Fill(&sources)
	return dashboard.New(dashboard.Config{Path: "/ui", Version: version.Read().Version}, sources, a.Log.With("component", "dashboard"))
}

// openRepeats opens the memory in Redis, nil where there is none.
func openRepeats(a *app.App, ports *api.Ports) (*repeat.Store, error) {
	if a.Notify.Redis == "" {
		return nil, nil
	}
	store, err := repeat.New(a.Notify.Repeats(), a.Log)
	if err == nil {
		ports.Repeats = store
	}
	return store, err
}

// serving is a running API, and what the admin endpoint asks.
type serving struct {
	app       *app.App
	ledger    *postgres.Ledger
	rules     *published.Sets // nil: they are of a file
	publisher *rabbit.Publisher
	api       *api.API
	pages     *dashboard.Dashboard
	handler   *httpapi.Handler
	server    *httpapi.Server
	repeats   *repeat.Store // nil: none
}

// look asks the broker: notifications are taken also while PostgreSQL is away.
func (s *serving) look(ctx context.Context) error {
	return app.BrokerUnreached(broker.Check(ctx, s.app.Servers.RabbitMQ, "notify api"))
}

// lookTimeout bounds how long a note waits for PostgreSQL.
const lookTimeout = 2 * time.Second

func (s *serving) serve(socket *app.Socket) error {
	_ = s.Ready() // logs it where a server is away
	ctx, cancel := context.WithCancel(s.app.Ctx)
	var looking sync.WaitGroup
	looking.Go(func() { s.pages.Run(ctx) })
	defer looking.Wait()
	defer cancel()
	return socket.Serve()
}

// Ready implements [app.Service].
func (s *serving) Ready() error { return s.handler.Ready() }

// Notes implements [app.Service].
func (s *serving) Notes() (notes []string) {
	if err := s.server.TokenFault(); err != nil {
		notes = append(notes, "HTTP_TOKEN_FILE: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(s.app.Ctx, lookTimeout)
	defer cancel()
	if err := app.LedgerUnreached(s.ledger.Check(ctx)); err != nil {
		notes = append(notes, "notifications are taken; decisions and preferences cannot be read: "+err.Error())
	}
	if s.rules != nil {
		notes = append(notes, s.rules.Notes()...)
	}
	if s.repeats != nil {
		if state := s.repeats.State(); state.Open {
			notes = append(notes, fmt.Sprintf("Redis is bypassed, check that NOTIFY_REDIS_URL is right: %v", state.Cause))
		}
	}
	return notes
}

// Register implements [app.Service].
func (s *serving) Register(set *metric.Set) {
	s.server.Register(set)
	s.publisher.Register(set)
	s.api.Stats().Register(set)
	if s.rules != nil {
		s.rules.Register(set)
	}
	if s.repeats != nil {
		s.repeats.Register(set)
	}
}

// Figures implements [app.Service].
func (s *serving) Figures() []app.Figure {
	stats := s.api.Stats()
	return []app.Figure{
		{Name: "requests", Read: s.handler.Stats().Latency.Count},
		{Name: "accepted", Read: stats.Accepted.Load},
		{Name: "duplicate", Read: stats.Duplicate.Load},
		{Name: "refused", Read: stats.Refused.Load},
		{Name: "failed", Read: stats.Failed.Load},
	}
}
