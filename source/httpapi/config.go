package httpapi

import (
	"log/slog"
	"math"
	"net"
	"net/netip"
	"time"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// Config says where the API listens and whom it lets in.
type Config struct {
	Addr string // host:port
	// Tokens and those in TokenFile, one a line, are what senders show, each alone or
	// with scopes behind it: "TOKEN send,read". With neither, every client that reaches the
	// port may do all.
	Tokens    []string
	TokenFile string
	// Sessions let browsers in that have shown a token once; nil: each request shows one.
	Sessions *Sessions
	// Hosts are the names under which a server may be asked, beside the loopback's own on
	// a loopback address; nil: with tokens any, and without them on loopback no other.
	Hosts []string
	// BehindProxy says that a proxy with TLS is in front.
	BehindProxy bool
	// Users are named by a proxy that has let them in; the zero value: by none.
	Users ProxiedUsers
	// Insecure allows an address beyond loopback without tokens.
	Insecure bool
	// TLSCert and TLSKey are PEM files; both or none.
	TLSCert, TLSKey string
	// Total bounds all requests together, Sender those of one token or,
	// without tokens, of one address.
	Total, Sender Rate
	// MaxConcurrent bounds the requests that are answered at once.
	MaxConcurrent int
	Timeouts      Timeouts
	// ReloadInterval is how often the files above are looked at. They are
	// read again when they have changed.
	ReloadInterval time.Duration
}

// ProxiedUsers says how a proxy names those that it has let in. Each has the scopes read and admin.
type ProxiedUsers struct {
	Header string         // such as X-Forwarded-User; the proxy must drop it from what it is sent
	From   []netip.Prefix // addresses of the proxy: from others the header says nothing
}

// Rate is a token bucket: PerSecond requests in the long run, Burst at once.
// 0 per second is no bound.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Timeouts of a connection, each from the start of what it bounds.
type Timeouts struct {
	Header time.Duration // until the headers are read
	Body   time.Duration // until headers and body are read
	Answer time.Duration // until the answer is written, reading and the store's commit included
	Idle   time.Duration // between requests
}

// DefaultConfig returns a server for one machine: on loopback, without tokens.
func DefaultConfig() Config {
	return Config{
		Addr:          "127.0.0.1:7080",
		Total:         Rate{PerSecond: 5000, Burst: 10_000},
		Sender:        Rate{PerSecond: 2000, Burst: 4000},
		MaxConcurrent: 1024, // one sender alone gets a half
		Timeouts: Timeouts{
			Header: 5 * time.Second,
			Body:   30 * time.Second,
			Answer: 60 * time.Second,
			Idle:   2 * time.Minute,
		},
		ReloadInterval: time.Second,
	}
}

// Validate reports every fault of the settings at once, as one configuration
// error, by the names of the settings. It opens no file.
func (c Config) Validate() error {
	var faults engine.Faults
	_, _, err := net.SplitHostPort(c.Addr)
	faults.If(err != nil, "%s is %q: it must be host:port, such as 127.0.0.1:7080: %w", addrSetting, c.Addr, err)
	faults.If(err == nil && !c.authenticates() && !c.Insecure && !OnLoopback(c.Addr),
		"%s is %q, which is not a loopback address, and there are no tokens: every client that reaches it could do all, such as write any user's profile; "+
			"name tokens with %s, or set 127.0.0.1:7080, or allow it with %s=true (--insecure)", addrSetting, c.Addr, TokenSettings(), insecureSetting)
	faults.If((c.Users.Header == "") != (len(c.Users.From) == 0), "a header that names users, and the addresses of the proxy that sends it, need each other: set both, or none")
	faults.If((c.TLSCert == "") != (c.TLSKey == ""), "%s is %q and %s is %q: set both, or none for HTTP without TLS",
		certSetting, c.TLSCert, keySetting, c.TLSKey)
	for i, entry := range listed(c.Tokens) {
		_, _, err := parseToken(entry)
		faults.If(err != nil, "%s: token %d %w", tokensSetting, i+1, err)
	}
	c.Total.check(&faults, rateSetting)
	c.Sender.check(&faults, senderRateSetting)
	faults.If(c.MaxConcurrent < 1, "%s is %d: it must be at least 1", concurrentSetting, c.MaxConcurrent)
	faults.If(c.ReloadInterval < 0, "token and TLS files are looked at every %v: it must not be negative", c.ReloadInterval)
	c.Timeouts.check(&faults)
	if len(faults) == 0 {
		return nil
	}
	return engine.ConfigurationError("http_configuration", faults.Err())
}

// Check validates the settings and reads the files that they name.
func (c Config) Check() error {
	_, err := NewServer(c, &Handler{log: slog.New(slog.DiscardHandler)})
	return err
}

func (c Config) authenticates() bool { return c.hasTokens() || c.Users.Header != "" }

func (c Config) hasTokens() bool { return len(c.Tokens) > 0 || c.TokenFile != "" }

func (c Config) encrypts() bool { return c.TLSCert != "" && c.TLSKey != "" }

func (r Rate) check(faults *engine.Faults, name cure.Name) {
	faults.If(!(r.PerSecond >= 0) || math.IsInf(r.PerSecond, 0), "%s is %v: it must be a finite number of requests per second, or 0 for no bound", name, r.PerSecond)
	faults.If(r.PerSecond > 0 && r.Burst < 1, "%s has a burst of %d: it must be at least 1, or no request ever passes", name, r.Burst)
}

func (t Timeouts) check(faults *engine.Faults) {
	for _, one := range []struct {
		name string
		d    time.Duration
	}{{"header", t.Header}, {"body", t.Body}, {"answer", t.Answer}, {"idle", t.Idle}} {
		faults.If(one.d <= 0, "the HTTP %s timeout is %v: it must be above 0, or a slow client is never cut off", one.name, one.d)
	}
	faults.If(t.Answer <= t.Body,
		"the HTTP answer timeout is %v: it must be above the body timeout, %v, or a slow request is stored and never answered", t.Answer, t.Body)
}
