package status

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/settings"
	"keyfold/service/dashboard"
	"keyfold/source/httpapi"
)

// DashboardFlags say where the pages are and who may see them.
type DashboardFlags struct {
	Addr        string          `name:"dashboard-addr" env:"DASHBOARD_ADDR" default:"127.0.0.1:7090" help:"Listen address of the pages."`
	Path        string          `name:"dashboard-path" env:"DASHBOARD_PATH" placeholder:"/PATH" help:"What stands before the path of each page, where a proxy passes it on."`
	Hosts       []string        `name:"dashboard-hosts" env:"DASHBOARD_HOSTS" help:"Names of the server in browsers, comma-separated; on a loopback address beside localhost and 127.0.0.1."`
	BehindProxy settings.Switch `name:"behind-proxy" env:"DASHBOARD_BEHIND_PROXY" help:"A proxy with TLS is in front: allow an address beyond loopback without TLS."`
	UserHeader  string          `name:"user-header" env:"DASHBOARD_USER_HEADER" placeholder:"NAME" help:"Header in which a proxy that lets users in names each, such as X-Forwarded-User; it must drop the header from what it is sent."`
	Proxies     []string        `name:"proxies" env:"DASHBOARD_PROXIES" placeholder:"ADDRESS" help:"Addresses of that proxy, comma-separated: 10.0.0.7 or 10.0.0.0/24."`
	Prometheus  string          `name:"prometheus-url" env:"PROMETHEUS_URL" placeholder:"URL" help:"Prometheus, for the alerts that fire and for plots of up to 7 days: http://prometheus:9090."`

	Evaluated string          `name:"eval-report" env:"DASHBOARD_EVAL_REPORT" placeholder:"FILE" help:"What keyfold eval -o json has printed last, for the page of the evaluation."`
	Actions   settings.Switch `name:"actions" env:"DASHBOARD_ACTIONS" help:"Pages may change something: for tokens with the scope admin, or on loopback without tokens after a click."`
	Bodies    settings.Switch `name:"bodies" env:"DASHBOARD_BODIES" help:"Show bodies of dead letters and texts of notifications, each time with a line in the audit log."`

	proxied, acts, bodies bool // what the switches set
}

// Bind binds the switches to their places.
func (f *DashboardFlags) Bind() {
	f.BehindProxy.Bind(&f.proxied)
	f.Actions.Bind(&f.acts)
	f.Bodies.Bind(&f.bodies)
}

// may reports whether pages change something. Check has judged the flags.
func (f DashboardFlags) may() bool {
	f.Bind()
	_ = settings.Read(&f)
	return f.acts
}

// showBodies reports whether pages show bodies of failures.
func (f DashboardFlags) showBodies() bool {
	f.Bind()
	_ = settings.Read(&f)
	return f.bodies
}

// Check judges the flags. access are the tokens and certificates beside them.
func (f DashboardFlags) Check(access app.Access) error {
	f.Bind()
	_, pathErr := dashboard.New(dashboard.Config{Path: f.Path}, dashboard.Sources{}, slog.New(slog.DiscardHandler))
	if pathErr != nil {
		pathErr = fmt.Errorf("DASHBOARD_PATH: %w", pathErr)
	}
	_, alertsErr := newPrometheus(f.Prometheus)
	readErr := settings.Read(&f)
	_, proxyErr := f.users()
	faults := []error{readErr, proxyErr, app.CheckPort("DASHBOARD_ADDR", f.Addr), f.exposed(access), pathErr, alertsErr}
	for _, host := range f.Hosts {
		if host = strings.TrimSpace(host); host == "" || strings.ContainsAny(host, "/:@ ") {
			faults = append(faults, fmt.Errorf("DASHBOARD_HOSTS has %q: each must be a name without port and path, such as keyfold.shop.example", host))
		}
	}
	return errors.Join(faults...)
}

// exposed returns an error where other machines would reach the pages without a token, or tokens
// would travel unencrypted.
func (f DashboardFlags) exposed(access app.Access) error {
	if httpapi.OnLoopback(f.Addr) || (access.Guarded() || f.UserHeader != "") && (f.proxied || access.Encrypted()) {
		return nil
	}
	return fmt.Errorf("DASHBOARD_ADDR is %q, which is not a loopback address: set HTTP_TOKEN_FILE or DASHBOARD_USER_HEADER, and HTTP_TLS_CERT with HTTP_TLS_KEY "+
		"or DASHBOARD_BEHIND_PROXY=true (--behind-proxy); or set it to 127.0.0.1:7090", f.Addr)
}

// users says how a proxy names users.
func (f DashboardFlags) users() (u httpapi.ProxiedUsers, err error) {
	u.Header = strings.TrimSpace(f.UserHeader)
	if (u.Header == "") != (len(f.Proxies) == 0) {
		return u, errors.New("DASHBOARD_USER_HEADER and DASHBOARD_PROXIES need each other: set both, or none")
	}
	if strings.ContainsAny(u.Header, " :") {
		return u, fmt.Errorf("DASHBOARD_USER_HEADER is %q: it must be the name of a header, such as X-Forwarded-User", u.Header)
	}
	for _, text := range f.Proxies {
		text = strings.TrimSpace(text)
		prefix, err := netip.ParsePrefix(text)
		if one, oneErr := netip.ParseAddr(text); oneErr == nil {
			prefix, err = netip.PrefixFrom(one, one.BitLen()), nil
		}
		if err != nil {
			return u, fmt.Errorf("DASHBOARD_PROXIES has %q: each must be an address or a network, such as 10.0.0.7 or 10.0.0.0/24", text)
		}
		u.From = append(u.From, prefix)
	}
	return u, nil
}

// config returns the server's settings; the error names every fault with the variable to change.
func (f DashboardFlags) config(access app.Access) (httpapi.Config, error) {
	if err := f.Check(access); err != nil {
		return httpapi.Config{}, err
	}
	f.Bind()
	_ = settings.Read(&f) // Check has told
	c := httpapi.DefaultConfig()
	access.Guard(&c)
	c.Addr, c.BehindProxy, c.MaxConcurrent = f.Addr, f.proxied, 64
	c.Sender, c.Total = httpapi.Rate{PerSecond: 50, Burst: 200}, httpapi.Rate{PerSecond: 500, Burst: 1000}
	c.Users, _ = f.users() // Check has told
	if access.Guarded() {
		c.Sessions = httpapi.NewSessions()
	}
	if httpapi.OnLoopback(f.Addr) || len(f.Hosts) > 0 { // elsewhere the cookie of a session is sent to the host alone that gave it
		c.Hosts = []string{}
	}
	for _, host := range f.Hosts {
		c.Hosts = append(c.Hosts, strings.TrimSpace(host))
	}
	return c, c.Validate()
}
