package httpapi

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// guard admits a request or refuses it before its body is read.
type guard struct {
	tokens    *reloader[tokens] // nil: no token is needed
	localOnly bool              // names that are neither the loopback's nor in hosts are refused
	hosts     []string          // other names that are let in; nil: see localOnly
	loopback  bool
	sessions  *Sessions // nil: there are none
	users     ProxiedUsers
	total     *rate.Limiter // nil: no bound
	senders   *rateLimits
	open      []string      // paths that need no token
	public    *rate.Limiter // of the open paths, which thus do not use up the total rate
}

func newGuard(c Config, open []string, log *slog.Logger) (*guard, error) {
	g := &guard{
		total: c.Total.limiter(), senders: newRateLimits(c.Sender), open: open, public: c.Total.limiter(),
		hosts: c.Hosts, loopback: OnLoopback(c.Addr), sessions: c.Sessions, users: c.Users,
	}
	if !c.hasTokens() {
		g.localOnly = g.loopback && !c.authenticates()
		return g, nil
	}
	g.tokens = &reloader[tokens]{
		what:  "the bearer tokens",
		load:  func(files [][]byte, err error) (tokens, error) { return loadTokens(c.Tokens, c.TokenFile, files, err) },
		every: c.ReloadInterval, strict: true, log: log,
	}
	if c.TokenFile != "" {
		g.tokens.paths = []string{c.TokenFile}
	}
	if err := g.tokens.start(); err != nil {
		return nil, fmt.Errorf("%s: %w", tokenFileSetting, err)
	}
	if g.sessions != nil {
		g.sessions.tokens = g.tokens
	}
	return g, nil
}

// foreign reports whether a request was made under a name that is not let in. Paths that need
// no token are refused for it only where names were given.
func (g *guard) foreign(host string, open bool) bool {
	switch {
	case g.hosts == nil && (open || !g.localOnly):
		return false
	case g.loopback && LocalHost(host):
		return false
	}
	return !slices.ContainsFunc(g.hosts, func(name string) bool { return strings.EqualFold(name, hostname(host)) })
}

// enter is an [admission]. Probes and the API description need no token and are
// not rate limited.
func (g *guard) enter(r *http.Request) (sender visitor, refused *Answer) {
	open := slices.Contains(g.open, r.URL.Path)
	if g.foreign(r.Host, open) {
		return visitor{}, refuse(http.StatusForbidden, "foreign_host", fmt.Sprintf("the host %s is not %s", short(r.Host), g.ownNames()))
	}
	if open {
		return g.admit(r)
	}
	switch r.URL.Path {
	case livePath, readyPath, openAPIPath:
		return visitor{may: whole}, nil
	}
	now := time.Now()
	sender, refused = g.identify(r, now)
	if refused != nil {
		return visitor{}, refused
	}
	if wait := take(now, g.senders.of(sender.key), g.total); wait > 0 {
		return visitor{}, tooMany(wait)
	}
	return sender, nil
}

// ownNames says which names are let in.
func (g *guard) ownNames() string {
	const loopback = "this machine's loopback: use localhost or 127.0.0.1"
	switch {
	case len(g.hosts) == 0:
		return loopback
	case g.loopback:
		return loopback + ", or " + strings.Join(g.hosts, ", ")
	}
	return "one of " + strings.Join(g.hosts, ", ")
}

// admit lets a request to an open path in, under any name of the host and without a scope.
func (g *guard) admit(r *http.Request) (visitor, *Answer) {
	address := addressOf(r)
	if wait := take(time.Now(), g.senders.of(address), g.public); wait > 0 {
		return visitor{}, tooMany(wait)
	}
	return visitor{key: address}, nil
}

// identify names the sender. Requests without a valid token use up the rate of
// their address, which bounds guessing. They do not use up the total rate, so
// that they cannot lock out senders with a token.
func (g *guard) identify(r *http.Request, now time.Time) (sender visitor, refused *Answer) {
	address := addressOf(r)
	if user := g.users.named(r); user != "" {
		return visitor{key: "user " + user, user: user, may: grant{scopes: ScopeRead | ScopeAdmin}}, nil
	}
	if g.tokens == nil && g.users.Header != "" {
		return visitor{}, refuse(http.StatusUnauthorized, "user_missing", "log in at the proxy in front: it names who you are, and has not")
	}
	if g.tokens == nil {
		return visitor{key: address, may: whole}, nil
	}
	shown, all := bearer(r), g.tokens.get()
	digest, may := all.find(shown)
	if shown == "" && g.sessions != nil {
		digest, may = g.sessions.find(r, all, now)
	}
	if may.scopes != 0 {
		return visitor{key: string(digest[:]), may: may, token: true}, nil
	}
	if wait := take(now, g.senders.of(address)); wait > 0 {
		return visitor{}, tooMany(wait)
	}
	if shown != "" && all.unread {
		return visitor{}, Unavailable("tokens_unread", "the server cannot read its tokens; send it again", nil)
	}
	return visitor{}, unauthorized(shown != "")
}

func tooMany(wait time.Duration) *Answer {
	return later(http.StatusTooManyRequests, wait, "rate_limited",
		"too many requests: send several events in one, and wait as long as Retry-After says")
}

// OnLoopback reports whether addr, host:port, can be reached from this machine
// only.
func OnLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && isLoopback(host)
}

// LocalHost reports whether a Host header names the loopback itself. A browser
// that another site's DNS led here names that site.
func LocalHost(host string) bool { return isLoopback(hostname(host)) }

// hostname cuts the port off a Host header.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// maxUser is how many bytes the name of a user may have.
const maxUser = 200

// named returns whom the proxy has let in; "": the request is not the proxy's, or names none. One
// that names two was not made by the proxy alone.
func (u *ProxiedUsers) named(r *http.Request) string {
	if u.Header == "" {
		return ""
	}
	given := r.Header.Values(u.Header)
	if len(given) != 1 || len(given[0]) > maxUser {
		return ""
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(u.From, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) }) {
		return ""
	}
	return strings.TrimSpace(given[0])
}
