package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/sourcegraph/conc"

	"keyfold/internal/cli"
	"keyfold/internal/shutdown"
	"keyfold/service/notify/api"
	"keyfold/service/notify/link"
	"keyfold/service/notify/page"
	"keyfold/service/notify/ruleset"

	"keyfold/engine"
	"keyfold/source/httpapi"
)

// notifyServeCmd decides notifications that are posted.
type notifyServeCmd struct {
	Addr    string        `name:"http-addr" env:"HTTP_ADDR" default:"127.0.0.1:7080" help:"Listen address of POST /v1/notifications."`
	Rules   string        `name:"rules" placeholder:"FILE" help:"The set of rules; without it, the shipped one."`
	Senders senders       `embed:""`
	Local   ruleset.Hours `embed:""`
	Links   link.Settings `embed:""`
}

// Service marks a command that runs until it is told to stop.
func (c *notifyServeCmd) Service() {}

// Help is the long text.
func (c *notifyServeCmd) Help() string {
	return `POST /v1/notifications takes one notification, an array of them, or NDJSON, and answers with the decisions once they
are stored and each NOW is handed over. What is deferred is decided again in time, as long as the program runs.
A notification that is posted again under its event_id gets the first decision again.

  GET /v1/notifications/EVENT_ID          all decisions of a notification, explained
  GET /v1/decisions/DECISION_ID           one decision, explained
  GET /v1/users/ID/decisions              a user's decisions, newest first; ?before=INSTANT&limit=N
  GET, PUT, PATCH /v1/users/ID/preferences zone, quiet hours, topics, digests, mutes, snooze, caps
  POST /v1/deliveries                     what the senders report of deliveries
  GET, POST /preferences?t=TOKEN          the page on which users see and change their preferences
  GET, POST /unsubscribe?t=TOKEN          unsubscribes with one click (RFC 8058)
  GET /ui/                                pages: decisions by hour, what waits, each decision explained, the rules
  GET /livez, /readyz

The pages of users are there with NOTIFY_LINK_KEY_FILE and NOTIFY_LINK_URL; each notification that is sent has their links.

Example:
  keyfold-lite notify serve --send-to OUT.ndjson`
}

// Check refuses an address that is not served, and faulty settings.
func (c *notifyServeCmd) Check(*app) error {
	_, err := c.Local.Local()
	return errors.Join(checkAddr(c.Addr), err, c.Senders.check(), c.Links.Check())
}

// Run serves until it is told to stop.
func (c *notifyServeCmd) Run(a *app) (err error) {
	set, err := c.Local.Set(c.Rules)
	if err != nil {
		return err
	}
	listener, err := listen(c.Addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	links, err := c.Links.Links(ruleset.Fixed{Set: set})
	if err != nil {
		return err
	}
	n, err := openNotify(a, set, c.Senders, links, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := n.warnAhead(); err != nil {
		return err
	}
	if err := n.notifier.Start(a.ctx); err != nil {
		return errors.Join(err, n.stop())
	}
	err = serveNotify(n, c, links, listener)
	return errors.Join(err, n.stop())
}

// api returns the API, which decides in this process. links may be nil: then there are no
// pages of users.
func (n *notifyRuntime) api(links *link.Links) (*api.API, error) {
	ports := api.Ports{Ledger: n.ledger, Decider: n.notifier, Reports: n.ledger, Sets: n.sets, Canceller: n.notifier.Processor, Log: n.log, Ready: func(ctx context.Context) error {
		if err := context.Cause(n.failed); err != nil {
			return err
		}
		_, err := n.ledger.NextDue(ctx)
		return err
	}}
	if links != nil {
		pages, err := page.New(n.ledger, n.sets, links)
		if err != nil {
			return nil, err
		}
		ports.Pages = pages
	}
	return api.New(ports), nil
}

// serveNotify answers requests until the program is told to stop or a fault ends it.
func serveNotify(n *notifyRuntime, c *notifyServeCmd, links *link.Links, listener net.Listener) error {
	application, err := n.api(links)
	if err != nil {
		return err
	}
	pages, err := n.pages(c)
	if err != nil {
		return err
	}
	server, err := httpapi.NewServer(apiConfig(c.Addr), httpapi.NewHandler(httpapi.Join(application, pages), n.log.With("component", "notify")))
	if err != nil {
		return err
	}
	if c.Senders == (senders{}) {
		fmt.Fprintln(n.Stderr, "no --send-to FILE and no --webhook URL: notifications are decided, and none is sent")
	}
	fmt.Fprintf(n.Stderr, "listening on http://%s: POST /v1/notifications; pages: http://%s%s/; stop with Ctrl-C\n", listener.Addr(), listener.Addr(), pagesPath)
	stop, cancel := context.WithCancel(n.ctx)
	var looking conc.WaitGroup
	looking.Go(func() { pages.Run(stop) })
	defer looking.Wait()
	defer cancel()
	defer context.AfterFunc(n.failed, cancel)()
	return shutdown.Serve(stop, server, listener, func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithoutCancel(n.ctx), n.config.Timeout/2)
	})
}

// warnAhead names users whose replayed decisions lie ahead of the clock: what is
// posted for them is decided as of then.
func (n *notifyRuntime) warnAhead() error {
	users, latest, err := n.ledger.Ahead(n.ctx, engine.Now())
	if err == nil && users > 0 {
		fmt.Fprintf(n.Stderr, "the folder holds decisions of %s that lie ahead of the clock, up to %s: notifications for them are decided as of then; "+
			"serve on a folder of its own: --data FOLDER\n", cli.Count(users, "user"), latest.Time().Format("2006-01-02 15:04:05 MST"))
	}
	return err
}
