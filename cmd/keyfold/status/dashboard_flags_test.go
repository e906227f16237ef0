package status

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/testserver/must"
	"keyfold/source/httpapi"
)

// given reads flags as the program does.
func given(t *testing.T, args ...string) (f DashboardFlags, access app.Access) {
	t.Helper()
	var all struct {
		Pages  DashboardFlags `embed:""`
		Access app.Access     `embed:""`
	}
	parser, err := kong.New(&all, kong.Exit(func(int) { t.Error("the flags end the program") }))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return all.Pages, all.Access
}

const tokenFlag = "--http-tokens=a-token-of-this-test-which-is-long-enough"

// Without settings the pages are on loopback and need no token, under the loopback's names alone.
func TestDashboardFlagsByDefault(t *testing.T) {
	f, access := given(t)
	c, err := f.config(access)
	if err != nil || c.Addr != "127.0.0.1:7090" || c.Sessions != nil || c.Hosts == nil || len(c.Hosts) > 0 || c.BehindProxy {
		t.Errorf("%+v, %v", c, err)
	}
	if c.MaxConcurrent != 64 || c.Sender.PerSecond == 0 || c.Total.PerSecond == 0 {
		t.Errorf("nothing bounds requests: %+v", c)
	}
}

// Beyond loopback the pages need a token, and TLS or a proxy that has it: each alone is refused with
// the variables that cure it.
//
// Promise(dashboard/exposed): Beyond loopback the dashboard does not start without tokens, and TLS or DASHBOARD_BEHIND_PROXY;
// the error names the settings.
func TestDashboardBeyondLoopback(t *testing.T) {
	folder := t.TempDir()
	tls := []string{"--http-tls-cert=" + filepath.Join(folder, "cert"), "--http-tls-key=" + filepath.Join(folder, "key")}
	for _, addr := range []string{":7090", "0.0.0.0:7090", "[::]:7090", "192.0.2.7:7090", "keyfold.example:7090"} {
		for _, c := range []struct {
			more []string
			runs bool
		}{
			{nil, false},
			{[]string{tokenFlag}, false},
			{[]string{"--behind-proxy"}, false},
			{tls, false},
			{[]string{tokenFlag, "--behind-proxy=false"}, false},
			{[]string{tokenFlag, "--behind-proxy"}, true},
			{append([]string{tokenFlag}, tls...), true},
		} {
			f, access := given(t, append([]string{"--dashboard-addr=" + addr}, c.more...)...)
			err := f.Check(access)
			if (err == nil) != c.runs {
				t.Errorf("%s with %q: %v", addr, c.more, err)
			}
			for _, name := range []string{"DASHBOARD_ADDR", "HTTP_TOKEN_FILE", "HTTP_TLS_CERT", "DASHBOARD_BEHIND_PROXY"} {
				if err != nil && !strings.Contains(err.Error(), name) {
					t.Errorf("%s is not named: %v", name, err)
				}
			}
			if c.runs && len(c.more) == 2 {
				if config, err := f.config(access); err != nil || config.Sessions == nil || config.Hosts != nil || !config.BehindProxy {
					t.Errorf("%s with %q: %+v, %v", addr, c.more, config, err)
				}
			}
		}
	}
}

// The names of the server are as given, and elsewhere none is refused: a proxy may have any.
func TestDashboardHosts(t *testing.T) {
	beyond := []string{"--dashboard-addr=:7090", tokenFlag, "--behind-proxy"}
	for _, c := range []struct{ args, hosts []string }{
		{[]string{"--dashboard-hosts=keyfold.shop.example, ops.example"}, []string{"keyfold.shop.example", "ops.example"}},
		{append([]string{"--dashboard-hosts=localhost,127.0.0.1"}, beyond...), []string{"localhost", "127.0.0.1"}},
		{beyond, nil},
	} {
		f, access := given(t, c.args...)
		if config, err := f.config(access); err != nil || !slices.Equal(config.Hosts, c.hosts) || (config.Hosts == nil) != (c.hosts == nil) {
			t.Errorf("%q: %#v, %v", c.args, config.Hosts, err)
		}
	}
	for _, host := range []string{"https://keyfold.example", "keyfold.example:443", "keyfold.example/ui", "a b", "ops@keyfold.example", "a,,b", " "} {
		f, access := given(t, "--dashboard-hosts="+host)
		if err := f.Check(access); err == nil || !strings.Contains(err.Error(), "DASHBOARD_HOSTS") {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// All faults are told at once, each with its variable.
func TestFaultsOfDashboardFlags(t *testing.T) {
	f, access := given(t, "--dashboard-addr=:port", "--dashboard-path=/a//b?", "--dashboard-hosts=a:1", "--prometheus-url=ops:s3cret", "--behind-proxy=perhaps")
	_, err := f.config(access)
	if err == nil {
		t.Fatal("they are taken")
	}
	for _, name := range []string{"DASHBOARD_ADDR", "DASHBOARD_PATH", "DASHBOARD_HOSTS", "PROMETHEUS_URL", "DASHBOARD_BEHIND_PROXY"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a secret is told: %v", err)
	}
	for _, path := range []string{"keyfold", "/keyfold/../admin", "/%2e%2e", `/"onload=`, "/a b", "//other.example"} {
		f, access := given(t, "--dashboard-path="+path)
		if err := f.Check(access); err == nil || !strings.Contains(err.Error(), "DASHBOARD_PATH") {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{"/keyfold", "/keyfold/", "/ops/keyfold-1.0"} {
		if f, access := given(t, "--dashboard-path="+path); f.Check(access) != nil {
			t.Errorf("%q: %v", path, f.Check(access))
		}
	}
}

// A token file serves as tokens do.
func TestDashboardTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	must.OK(t, os.WriteFile(file, []byte("a-token-of-this-test-which-is-long-enough read\n"), 0o600))
	f, access := given(t, "--http-token-file="+file)
	c, err := f.config(access)
	if err != nil || c.Sessions == nil || c.TokenFile != file || !httpapi.OnLoopback(c.Addr) {
		t.Errorf("%+v, %v", c, err)
	}
}
