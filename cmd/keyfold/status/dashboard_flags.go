package status

import (
	"errors"
	"fmt"
	"log/slog"
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
	Prometheus  string          `name:"prometheus-url" env:"PROMETHEUS_URL" placeholder:"URL" help:"Prometheus, for the alerts that fire: http://prometheus:9090."`

	Tokens    []string `name:"http-tokens" env:"HTTP_TOKENS" secret:"" help:"Bearer tokens, comma-separated; better in the environment or a file."`
	TokenFile string   `name:"http-token-file" env:"HTTP_TOKEN_FILE" placeholder:"FILE" help:"File of bearer tokens, one per line; read again when it changes."`
	TLSCert   string   `name:"http-tls-cert" env:"HTTP_TLS_CERT" placeholder:"FILE" help:"PEM certificate; read again when it changes."`
	TLSKey    string   `name:"http-tls-key" env:"HTTP_TLS_KEY" placeholder:"FILE" help:"PEM key."`

	proxied bool // what BehindProxy sets
}

// Bind binds the switch to its place.
func (f *DashboardFlags) Bind() { f.BehindProxy.Bind(&f.proxied) }

// Check also reads the files with tokens and certificates.
func (f DashboardFlags) Check() error {
	config, err := f.config()
	if err == nil {
		err = config.Check()
	}
	return err
}

// config returns the server's settings; the error names every fault with the variable to change.
func (f DashboardFlags) config() (httpapi.Config, error) {
	f.Bind()
	faults := []error{settings.Read(&f), app.CheckPort("DASHBOARD_ADDR", f.Addr)}
	config := httpapi.DefaultConfig()
	config.Addr, config.Hosts = f.Addr, []string{}
	config.Tokens, config.TokenFile, config.TLSCert, config.TLSKey = f.Tokens, f.TokenFile, f.TLSCert, f.TLSKey
	config.MaxConcurrent = 64
	config.Sender, config.Total = httpapi.Rate{PerSecond: 50, Burst: 200}, httpapi.Rate{PerSecond: 500, Burst: 1000}
	config.BehindProxy = f.proxied
	if f.guarded() {
		config.Sessions = httpapi.NewSessions()
	}
	for _, host := range f.Hosts {
		host = strings.TrimSpace(host)
		config.Hosts = append(config.Hosts, host)
		if host == "" || strings.ContainsAny(host, "/:@ ") {
			faults = append(faults, fmt.Errorf("DASHBOARD_HOSTS has %q: each must be a name without port and path, such as keyfold.shop.example", host))
		}
	}
	if !httpapi.OnLoopback(f.Addr) && len(f.Hosts) == 0 {
		config.Hosts = nil // a browser sends the cookie of a session to the host alone that gave it
	}
	if err := f.exposed(); err != nil {
		return config, errors.Join(append(faults, err)...) // what the server says of tokens is in it
	}
	if _, err := dashboard.New(dashboard.Config{Path: f.Path}, dashboard.Sources{}, slog.New(slog.DiscardHandler)); err != nil {
		faults = append(faults, fmt.Errorf("DASHBOARD_PATH: %w", err))
	}
	_, err := newAlerts(f.Prometheus)
	return config, errors.Join(append(faults, config.Validate(), err)...)
}

func (f DashboardFlags) guarded() bool { return len(f.Tokens) > 0 || f.TokenFile != "" }

// exposed returns an error where other machines would reach the pages without a token, or tokens
// would travel unencrypted.
func (f DashboardFlags) exposed() error {
	if httpapi.OnLoopback(f.Addr) || f.guarded() && (f.proxied || f.TLSCert != "" && f.TLSKey != "") {
		return nil
	}
	return fmt.Errorf("DASHBOARD_ADDR is %q, which is not a loopback address: set HTTP_TOKEN_FILE, and HTTP_TLS_CERT with HTTP_TLS_KEY "+
		"or DASHBOARD_BEHIND_PROXY=true (--behind-proxy); or set it to 127.0.0.1:7090", f.Addr)
}
