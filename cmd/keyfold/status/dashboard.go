package status

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/sourcegraph/conc"

	"keyfold/cmd/evaluate"
	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/failures"
	"keyfold/cmd/keyfold/notifications"
	"keyfold/cmd/keyfold/profiles"
	"keyfold/cmd/keyfold/reach"
	"keyfold/cmd/keyfold/recommending"
	"keyfold/internal/chart"
	"keyfold/internal/version"
	"keyfold/service/dashboard"
	"keyfold/service/status"
	"keyfold/source/httpapi"
)

// DashboardCmd serves pages that show what `keyfold status` prints.
type DashboardCmd struct {
	Status reach.StatusFlags `embed:""`
	Pages  DashboardFlags    `embed:""`
	Access app.Access        `embed:""`
}

// Service marks a command that runs until it is told to stop.
func (c *DashboardCmd) Service() {}

// Help is the long text.
func (c *DashboardCmd) Help() string {
	return `The pages show what "keyfold status" prints, figures of the last 15 minutes, the processes one by one, alerts and
the runbook. They only read unless --actions is given; the command may be stopped at any time.

Without tokens it listens on loopback only. Beyond loopback it needs tokens, and TLS or --behind-proxy: a browser is asked for
a token with the scope read once, and other programs send the header "Authorization: Bearer TOKEN".

Examples:
  keyfold dashboard --processes worker-1:9090,worker-2:9090,relay:9090
  keyfold dashboard --dashboard-addr :7090 --http-token-file tokens --http-tls-cert cert.pem --http-tls-key key.pem`
}

// Check judges the settings, and reads the files with tokens and certificates.
func (c *DashboardCmd) Check(a *app.App) error {
	config, err := c.Pages.config(c.Access)
	if err == nil {
		err = config.Check()
	}
	return errors.Join(CheckServers(a), c.Status.Check(), err)
}

// Run serves the pages until it is told to stop.
func (c *DashboardCmd) Run(a *app.App) error {
	a.LogStart("dashboard")
	config, err := c.Pages.config(c.Access)
	if err != nil {
		return err
	}
	past, err := newPrometheus(c.Pages.Prometheus)
	if err != nil {
		return err
	}
	sources := dashboard.Sources{Look: func(ctx context.Context, before map[string]map[string]float64) (*status.Report, error) {
		bounded := *a
		bounded.Ctx = ctx
		return Look(&bounded, c.Status, before)
	}}
	if past != nil {
		sources.Alerts, sources.Past = past.alerts, past.past
	}
	if file := c.Pages.Evaluated; file != "" {
		sources.Evaluated = func() (*chart.Page, time.Time, error) { return evaluate.ReadPage(file, a.Vectors.Offline) }
	}
	people, err := recommending.NewPages(a)
	if err != nil {
		return err
	}
	defer func() { _ = people.Close() }() // it only read
	sources.Users, sources.Actions = people.Users(), profiles.Actions(a)
	var others []failures.Place
	if a.Notify.Ledger != "" {
		others = notifications.FailurePlaces()
		notifications.NewPages(a, people.Ledger).Fill(&sources)
	}
	sources.Failures = failures.NewPages(a, others...)
	log := a.Log.With("component", "dashboard")
	machine, _ := os.Hostname() // without a name the page says "this machine"
	pages, err := dashboard.New(dashboard.Config{
		Path: c.Pages.Path, Hosts: config.Hosts, Sessions: config.Sessions, Version: version.Read().Version, Actions: c.Pages.may(), Machine: machine,
		Named: config.Users.Header != "", Bodies: c.Pages.showBodies(),
	}, sources, log)
	if err != nil {
		return err
	}
	server, err := httpapi.NewServer(config, httpapi.NewHandler(pages, log))
	if err != nil {
		return err
	}
	return c.serve(a, pages, server)
}

func (c *DashboardCmd) serve(a *app.App, pages *dashboard.Dashboard, server *httpapi.Server) error {
	socket, err := a.Listen("dashboard", server, "DASHBOARD_ADDR", c.Pages.Addr, strings.TrimSuffix(c.Pages.Path, "/")+"/")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(a.Ctx)
	var looking conc.WaitGroup
	looking.Go(func() { pages.Run(ctx) })
	defer looking.Wait()
	defer cancel()
	return socket.Serve()
}
