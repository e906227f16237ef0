package dashboard

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"keyfold/internal/chart"
	"keyfold/service/status"
	"keyfold/source/httpapi"
)

//go:embed page asset
var files embed.FS

// Config says where the pages are and who may see them.
type Config struct {
	Path     string            // that stands before each page's own, such as "/keyfold"; "": none
	Hosts    []string          // names of the server in browsers, beside the loopback's
	Sessions *httpapi.Sessions // nil: no token is needed
	Version  string            // of the program
	Now      func() time.Time  // nil: the machine's clock

	// Actions says that pages change something, for those whose token has the scope admin. Without
	// tokens a browser is asked once, with the name of the machine.
	Actions bool
	Machine string
	Named   bool // a proxy names each viewer: none is asked
	// Bodies says that bodies of failures and texts of notifications are shown, each time with a line in the audit log.
	Bodies bool
}

// Sources are what the pages show.
type Sources struct {
	// Look asks servers and processes. before are the figures of an earlier look by address of
	// the process: a quantile is of what came since then.
	Look func(ctx context.Context, before map[string]map[string]float64) (*status.Report, error)
	// Single says that all is one process: it has no page of processes, alerts and the runbook.
	Single bool
	// Users are where pages of users are read; nil: there are none.
	Users *Users
	// Failures are where failures are read and changed; nil: there is no page of them.
	Failures *Failures
	// Notifications and Rules are where pages of notifications are read; nil: there are none.
	Notifications *Notifications
	Rules         *Rules
	// Alerts asks Prometheus; nil: there is none.
	Alerts func(context.Context) ([]Alert, error)
	// Past asks for figures of a longer span than the dashboard keeps; nil: there are none.
	Past func(ctx context.Context, span time.Duration) (*Past, error)
	// Evaluated returns the page of the last evaluation, and when it was written; nil: none is kept.
	Evaluated func() (*chart.Page, time.Time, error)
	// Actions are what pages can change.
	Actions []Action
}

// Dashboard is an [httpapi.Application].
type Dashboard struct {
	config  Config
	sources Sources
	watch   *watch
	routes  []route
	origin  *http.CrossOriginProtection
	manual  *manual
	results *results
	tally   *tally // nil: there are no notifications
	plans   *plans
	jobs    *jobs
	journal *journal
	index   *failureIndex
}

var prefix = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// New returns a dashboard, whose pages show nothing before [Dashboard.Run] runs.
func New(config Config, sources Sources, log *slog.Logger) (*Dashboard, error) {
	config.Path = strings.TrimSuffix(config.Path, "/")
	if !prefix.MatchString(config.Path) || config.Path != "" && path.Clean(config.Path) != config.Path {
		return nil, fmt.Errorf("the path %q must be like /keyfold: letters, digits and -._~ between slashes", config.Path)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	templates() // so that no viewer waits for them
	d := &Dashboard{
		config: config, sources: sources, routes: offered(routes(), config, sources), origin: http.NewCrossOriginProtection(),
		watch: newWatch(sources.Look, config.Now, log), manual: readManual(config.Path), results: newResults(config.Now),
		plans: newPlans(config.Now), jobs: newJobs(config.Now), journal: &journal{now: config.Now, log: log},
		index: newFailureIndex(sources.Failures, config.Now),
	}
	if sources.Failures != nil {
		d.sources.Actions = slices.Concat(sources.Actions, d.failureActions())
	}
	if sources.Notifications != nil {
		d.tally = newTally(sources.Notifications, d.results, config.Now)
	}
	for _, host := range config.Hosts { // a proxy may name another host to this server than the browser knows
		if err := d.origin.AddTrustedOrigin("https://" + host); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Run looks at the installation until ctx ends.
func (d *Dashboard) Run(ctx context.Context) {
	defer d.results.close()
	defer d.index.close()
	defer d.jobs.close()
	defer d.journal.refusals.Close()
	if d.sources.Look == nil {
		<-ctx.Done()
		return
	}
	d.watch.run(ctx)
}

// About implements [httpapi.Application].
func (d *Dashboard) About() httpapi.About {
	about := httpapi.About{InWords: d.inWords, Under: d.config.Path}
	for _, r := range d.routes {
		if r.scope == 0 {
			about.Open = append(about.Open, d.config.Path+r.path)
		}
	}
	return about
}

// Ready implements [httpapi.Application]: a page says itself what cannot be seen.
func (d *Dashboard) Ready(context.Context) error { return nil }

// Serve implements [httpapi.Application].
func (d *Dashboard) Serve(r *httpapi.Request) *httpapi.Answer {
	behind, found := strings.CutPrefix(r.URL.Path, d.config.Path)
	if behind == "" {
		behind = "/"
	}
	if behind == "/" && found && d.sources.alone() {
		return d.lead(d.sources.first())
	}
	to := d.find(behind)
	if !found || to == nil {
		return nil
	}
	if refused := d.check(r, to); refused != nil {
		return refused
	}
	a := to.serve(d, r)
	if a == nil {
		return nil
	}
	return withHeaders(a)
}

// withHeaders sets those of every answer.
func withHeaders(a *httpapi.Answer) *httpapi.Answer {
	if a.Header == nil {
		a.Header = http.Header{}
	}
	for name, value := range headers {
		a.Header.Set(name, value)
	}
	return a
}

// check refuses what the route does not take, and who may not.
func (d *Dashboard) check(r *httpapi.Request, to *route) *httpapi.Answer {
	takes := cmp.Or(to.takes, "GET, HEAD")
	if !slices.Contains(strings.Split(takes, ", "), r.Method) {
		return httpapi.RefuseMethod(r.Method, takes)
	}
	if r.Method != http.MethodPost && embedded(r.Request) {
		return httpapi.Refuse(http.StatusForbidden, httpapi.Fault{Reason: "foreign_origin", Error: "another site has asked for this page without showing it: open it yourself"})
	}
	if r.Method == http.MethodPost {
		if err := d.origin.Check(r.Request); err != nil {
			d.journal.refuse(r, "foreign_origin")
			return httpapi.Refuse(http.StatusForbidden, httpapi.Fault{Reason: "foreign_origin", Error: "the form was sent from another site: open the page again, and send it from there"})
		}
	}
	if to.scope != 0 {
		return r.Require(to.scope)
	}
	return nil
}

// embedded reports whether a page of another site asks for what it does not lead to. A page of
// failures has letters read, which no other site may have done.
func embedded(r *http.Request) bool {
	site, kind := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Dest")
	return (site == "cross-site" || site == "same-site") && kind != "" && kind != "document"
}

// headers are those of every answer. Nothing is inline, and nothing comes from elsewhere.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types keyfold",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"X-Frame-Options":              "DENY",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
}

// asset answers with a file, which a browser keeps under its ETag.
func asset(name, kind string) func(*Dashboard, *httpapi.Request) *httpapi.Answer {
	text, err := files.ReadFile("asset/" + name)
	if path.Ext(name) == ".css" {
		text = []byte(unspaced.Replace(string(text)))
	}
	tag := etag(text)
	return func(_ *Dashboard, r *httpapi.Request) *httpapi.Answer {
		if err != nil {
			return nil
		}
		a := answer(r, http.StatusOK, text, tag)
		a.Type = kind
		a.Header.Set("Cache-Control", "no-cache") // it asks each time, and is told 304
		return a
	}
}

// unspaced leaves out of a style what is there for its readers.
var unspaced = strings.NewReplacer("; }", "}", " }", "}", " { ", "{", ": ", ":")

var errFirstLook = errors.New("the first look at the installation is under way")
