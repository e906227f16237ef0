package rediscache_test

import (
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/redistest"
	"keyfold/source/vector/rediscache"
)

// childURL makes a test be the child of the one of its name, with the Redis of
// this URL.
const childURL = "KEYFOLD_TEST_REDIS_URL"

// inChild runs the body of a test in a process that trusts an authority: what a
// process trusts it reads once.
func inChild(t *testing.T, authority *redistest.Authority, url string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2m")
	child.Env = append(os.Environ(), "SSL_CERT_FILE="+authority.File(), childURL+"="+url)
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// rediss:// with a private authority, which SSL_CERT_FILE names, a user and
// password that need escaping, a database number, and no right that is not
// needed.
//
// Promise(away/redis-tls): A fault of Redis's TLS or certificate is bypassed with its cure in
// `/readyz`; no event waits or is lost.
// Promise(away/redis-rights)
func TestTLS(t *testing.T) {
	phrases, all := vectors(50)
	if at := os.Getenv(childURL); at != "" {
		c := newCache(t, at)
		must.OK(t, c.Ping(t.Context()))
		c.Put(t.Context(), phrases, all)
		for i, v := range c.Get(t.Context(), phrases) {
			if !slices.Equal(v, all[i]) {
				t.Fatalf("%s: %v, %+v", phrases[i], v, c.State())
			}
		}
		if n := c.Stats().Failures.Load(); n != 0 {
			t.Errorf("%d failures: %+v", n, c.State())
		}
		return
	}
	authority := redistest.NewAuthority(t)
	const password = "p@ss/w:rd%?"
	s := redistest.Start(t, append(authority.Issue(t, nil),
		"--user", "shop", "on", ">"+password, "~embeddings:*", "+get", "+mget", "+set", "+select")...)
	for _, host := range []string{"localhost", "127.0.0.1"} {
		_, port, err := net.SplitHostPort(s.TLSAddress())
		must.OK(t, err)
		at := url.URL{Scheme: "rediss", User: url.UserPassword("shop", password), Host: net.JoinHostPort(host, port), Path: "/3"}
		inChild(t, authority, at.String())
	}
	if got := s.Info("keyspace"); !strings.Contains(got, "db3:keys=50,") || strings.Contains(got, "db0:") {
		t.Errorf("written elsewhere than to database 3:\n%s", got)
	}
}

// What is wrong between client and server is said with its cure, and Redis is
// bypassed.
//
// Promise(away/redis-tls)
func TestTLSFaults(t *testing.T) {
	authority := redistest.NewAuthority(t)
	issue := func(change func(*x509.Certificate)) []string { return authority.Issue(t, change) }
	atTLS := (*redistest.Server).TLSURL
	for name, x := range map[string]struct {
		settings []string
		url      func(*redistest.Server) string
		want     string
	}{
		"unknown authority": {issue(nil), atTLS, "set SSL_CERT_FILE"},
		"another host":      {issue(func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere"} }), atTLS, "must name the host"},
		"expired":           {issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), atTLS, "certificate that is valid today"},
		"a port without TLS": {
			issue(nil), func(s *redistest.Server) string { return "rediss://" + s.Address() }, "write redis://",
		},
		"a port with TLS": {
			issue(nil), func(s *redistest.Server) string { return "redis://" + s.TLSAddress() }, "write rediss://",
		},
		"clients need certificates": {
			append(issue(nil), "--tls-auth-clients", "yes"),
			func(s *redistest.Server) string { return s.TLSURL() + "?skip_verify=true" }, "tls-auth-clients",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, x.settings...)
			c := newCache(t, x.url(s), func(c *rediscache.Config) {
				if name == "a port without TLS" {
					c.Timeout = 80 * time.Millisecond // it waits for more, for ever
				}
				c.OpenFor = time.Hour
			})
			if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("no cure in %v", err)
			}
			phrases, all := vectors(2)
			for range 3 {
				c.Put(t.Context(), phrases, all)
				if got := c.Get(t.Context(), phrases); got[0] != nil {
					t.Error("an answer")
				}
			}
			state, stats := c.State(), c.Stats()
			if !state.Open || !strings.Contains(state.Cause.Error(), x.want) || stats.Failures.Load() != 2 || stats.Bypassed.Load() != 4 {
				t.Errorf("%d failures, %d bypassed, %+v", stats.Failures.Load(), stats.Bypassed.Load(), state)
			}
		})
	}
}

// rediss:// behind a sentinel: sentinel and server are both asked over TLS, and
// both have to show the name of the URL's host, though the server is known by
// its address.
//
// Promise(away/redis-tls)
func TestTLSSentinel(t *testing.T) {
	phrases, all := vectors(5)
	if at := os.Getenv(childURL); at != "" {
		c := newCache(t, at)
		c.Put(t.Context(), phrases, all)
		if got := c.Get(t.Context(), phrases); !slices.Equal(got[4], all[4]) {
			t.Errorf("%v, %+v", got[4], c.State())
		}
		return
	}
	authority := redistest.NewAuthority(t)
	named := authority.Issue(t, func(c *x509.Certificate) { c.IPAddresses = nil })
	master := redistest.Start(t, named...)
	sentinel := master.Sentinel(t, "main", named...)
	inChild(t, authority, sentinel.TLSURL()+"/2?master_name=main")
	if got := master.Info("keyspace"); !strings.Contains(got, "db2:keys=5,") {
		t.Errorf("written elsewhere:\n%s", got)
	}
}

// Without verifying, any certificate does.
//
// Promise(away/redis-tls)
func TestTLSUnverified(t *testing.T) {
	s := redistest.Start(t, redistest.NewAuthority(t).Issue(t, nil)...)
	c := newCache(t, s.TLSURL()+"?skip_verify=true")
	phrases, all := vectors(1)
	c.Put(t.Context(), phrases, all)
	if got := c.Get(t.Context(), phrases); !slices.Equal(got[0], all[0]) {
		t.Errorf("%v, %+v", got[0], c.State())
	}
}
