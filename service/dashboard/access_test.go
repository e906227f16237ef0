package dashboard

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/source/httpapi"
)

// Tokens of the tests, each with its scopes behind it.
const (
	reader = "reader-token-0001"
	sender = "sender-token-0001"
	admin  = "admin-token-00001"
	whole  = "whole-token-00001"
)

// withTokens is a dashboard that asks for a token, and its file of tokens.
func withTokens(t *testing.T, path string) (*httpapi.Server, string) {
	t.Helper()
	config := onLoopback()
	config.TokenFile = filepath.Join(t.TempDir(), "tokens")
	write(t, config.TokenFile, reader+" read\n"+sender+" send,deliver\n"+admin+" read,admin\n"+whole+"\n")
	config.Sessions, config.ReloadInterval = httpapi.NewSessions(), 0
	return guarded(t, shownAs(t, Config{Path: path, Sessions: config.Sessions, Actions: true}, everything(), faulty(90)), config), config.TokenFile
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// post sends a form as the page itself does.
func post(s http.Handler, path string, fields url.Values, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(fields.Encode()))
	r.Host = "localhost:7090"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func bearing(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func with(cookie *http.Cookie) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(cookie) }
}

// login returns the cookie that the form gives for a token, nil where it is refused.
func login(s http.Handler, token string) *http.Cookie {
	for _, c := range post(s, "/login", url.Values{"token": {token}, "next": {"/workers"}}).Cookies() {
		return c
	}
	return nil
}

// answered is the status of a route without a form or an id, where it is not 200.
var answered = map[string]int{"/search": http.StatusSeeOther, planPath: http.StatusNotFound, decisionPath: http.StatusNotFound, rulePath: http.StatusNotFound, jobPath: http.StatusNotFound, doPath: http.StatusConflict, unlockPath: http.StatusSeeOther}

// ask sends what a route takes: a form without fields where it takes no GET.
func ask(t *testing.T, s http.Handler, to route, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	if to.takes != http.MethodPost {
		return get(t, s, to.path, change...)
	}
	return post(s, to.path, nil, change...), ""
}

// Every route is answered by its scope: without a token, with each kind of token, and with the
// session of each.
//
// Promise(dashboard/scopes): Every page needs a token with the scope read, as a bearer token or by the login's cookie; a
// revoked token ends its sessions.
func TestEveryRouteByItsScope(t *testing.T) {
	s, _ := withTokens(t, "")
	for _, to := range routes() {
		if to.path == logoutPath || to.path == loginPath {
			continue
		}
		for token, may := range map[string]httpapi.Scope{
			"": 0, reader: httpapi.ScopeRead, sender: httpapi.ScopeSend, admin: httpapi.ScopeRead | httpapi.ScopeAdmin,
			whole: httpapi.ScopeRead | httpapi.ScopeAdmin, "unknown-token-001": 0,
		} {
			want := http.StatusOK
			switch {
			case to.scope == 0 || may&to.scope != 0:
				want = cmp.Or(answered[to.path], want)
			case may != 0:
				want = http.StatusForbidden
			default:
				want = http.StatusUnauthorized
			}
			ways := map[string]func(*http.Request){"bearer": bearing(token)}
			if cookie := login(s, token); cookie != nil {
				ways["session"] = with(cookie)
			}
			if (len(ways) == 2) != (token != "" && token != "unknown-token-001") {
				t.Errorf("%q gets a session: %t", token, len(ways) == 2)
			}
			for way, show := range ways {
				if token == "" {
					show = func(*http.Request) {}
				}
				if res, page := ask(t, s, to, show); res.StatusCode != want || want == http.StatusUnauthorized && to.takes == "" && !strings.Contains(page, `action="/login"`) {
					t.Errorf("%s with %q by %s: %d, want %d", to.path, token, way, res.StatusCode, want)
				}
			}
		}
	}
}

// A session is a cookie of this host alone, which holds no token and is worth nothing when it was
// changed, when its token was revoked, and to another process.
//
// Promise(dashboard/scopes)
func TestSessions(t *testing.T) {
	s, file := withTokens(t, "")
	res := post(s, "/login", url.Values{"token": {" " + reader + "\n"}, "next": {"/runbook?q=disk"}})
	cookie := res.Cookies()[0]
	text := res.Header.Get("Set-Cookie")
	for _, want := range []string{"__Host-keyfold=", "Path=/", "HttpOnly", "Secure", "SameSite=Strict", "Max-Age=43200"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/runbook?q=disk" || strings.Contains(text, reader) {
		t.Errorf("%d to %s", res.StatusCode, res.Header.Get("Location"))
	}
	status := func(c http.Cookie) int {
		res, _ := get(t, s, "/", with(&c))
		return res.StatusCode
	}
	if got := status(*cookie); got != http.StatusOK {
		t.Errorf("the session: %d", got)
	}
	for i := range cookie.Value {
		changed := *cookie
		replaced := byte('A')
		if changed.Value[i] == replaced {
			replaced = 'B'
		}
		changed.Value = changed.Value[:i] + string(replaced) + changed.Value[i+1:]
		if got := status(changed); got != http.StatusUnauthorized && i < len(cookie.Value)-1 { // the last character has bits to spare
			t.Errorf("changed at %d: %d", i, got)
		}
	}
	for _, value := range []string{"", "x", strings.Repeat("A", 54), strings.Repeat("A", 10000)} {
		if got := status(http.Cookie{Name: cookie.Name, Value: value}); got != http.StatusUnauthorized {
			t.Errorf("%.10q: %d", value, got)
		}
	}
	other, _ := withTokens(t, "")
	if res, _ := get(t, other, "/", with(cookie)); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("at another process: %d", res.StatusCode)
	}
	if res := post(s, "/logout", nil, with(cookie)); !strings.Contains(res.Header.Get("Set-Cookie"), "Max-Age=0") || res.Header.Get("Location") != "/login" {
		t.Errorf("logged out: %v", res.Header)
	}
	write(t, file, admin+" read,admin\n")
	if got := status(*cookie); got != http.StatusUnauthorized {
		t.Errorf("after its token was revoked: %d", got)
	}
	if res := post(s, "/login", url.Values{"token": {reader}}); res.StatusCode != http.StatusUnauthorized || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("a revoked token: %d", res.StatusCode)
	}
}

// A login leads to a page of the dashboard and nowhere else.
func TestALoginLeadsToNoOtherHost(t *testing.T) {
	s, _ := withTokens(t, "/ops")
	for next, want := range map[string]string{
		"/workers": "/ops/workers", "/runbook?q=a+b": "/ops/runbook?q=a+b", "": "/ops/", "//evil.example": "/ops/", "https://evil.example/": "/ops/",
		"/\\evil.example": "/ops/", "/nowhere": "/ops/", "/logout": "/ops/", "javascript:alert(1)": "/ops/", "/workers\r\nX: y": "/ops/", "%2f%2fevil.example": "/ops/",
	} {
		if res := post(s, "/ops/login", url.Values{"token": {reader}, "next": {next}}); res.Header.Get("Location") != want {
			t.Errorf("%q leads to %q", next, res.Header.Get("Location"))
		}
	}
	if _, page := get(t, s, "/ops/runbook?q=disk"); !strings.Contains(page, `name="next" value="/runbook?q=disk"`) {
		t.Errorf("the form does not know the page: %s", page)
	}
}

// Forms of other sites, foreign names and methods that change something are refused.
//
// Promise(dashboard/foreign): Requests under a foreign host, forms of another site, and methods other than GET and HEAD
// are refused, with and without tokens.
func TestForeignRequestsAreRefused(t *testing.T) {
	open := guarded(t, shownAs(t, Config{}, everything(), nil), onLoopback())
	named := onLoopback()
	named.Hosts = []string{"keyfold.shop.example"}
	behind := guarded(t, shownAs(t, Config{Hosts: named.Hosts}, everything(), nil), named)
	tokens, _ := withTokens(t, "")
	for host, want := range map[string][3]int{
		"localhost:7090": {200, 200, 200}, "127.0.0.1:7090": {200, 200, 200}, "[::1]:7090": {200, 200, 200}, "keyfold.shop.example": {403, 200, 403}, "Keyfold.Shop.Example:443": {403, 200, 403},
		"evil.example": {403, 403, 403}, "localhost.evil.example": {403, 403, 403}, "": {403, 403, 403}, "127.0.0.1.nip.example:7090": {403, 403, 403},
	} {
		for i, s := range []http.Handler{open, behind, tokens} {
			for _, to := range routes() {
				if to.scope != httpapi.ScopeRead || answered[to.path] != 0 {
					continue
				}
				if res, _ := get(t, s, to.path, bearing(reader), func(r *http.Request) { r.Host = host }); res.StatusCode != want[i] {
					t.Errorf("server %d, host %q, %s: %d, want %d", i, host, to.path, res.StatusCode, want[i])
				}
			}
		}
	}
	for _, origin := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "https://evil.example") },
		func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") },
	} {
		for _, path := range []string{loginPath, logoutPath, unlockPath, doPath, planPath + "shop.clear"} {
			if res := post(tokens, path, url.Values{"token": {reader}}, origin, bearing(admin)); res.StatusCode != http.StatusForbidden || res.Header.Get("Set-Cookie") != "" {
				t.Errorf("a form of another site to %s: %d", path, res.StatusCode)
			}
		}
	}
	for _, to := range routes() {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			if method == http.MethodPost && to.takes != "" {
				continue
			}
			if res := post(tokens, to.path, nil, bearing(admin), func(r *http.Request) { r.Method = method }); res.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, to.path, res.StatusCode)
			}
		}
	}
}

// Every answer has the headers that keep a browser from anything else.
//
// Promise(dashboard/headers): Every answer, refusals too, has a Content-Security-Policy without inline code, nosniff, no-referrer,
// and no-store for pages.
func TestHeaders(t *testing.T) {
	s, _ := withTokens(t, "")
	requests := map[string][]func(*http.Request){"/nowhere": {bearing(reader)}, "/workers": nil, "/alerts": {bearing(sender)}, "/runbook": {func(r *http.Request) { r.Host = "evil.example" }}}
	for _, to := range routes() {
		if _, there := requests[to.path]; !there && to.takes != http.MethodPost {
			requests[to.path] = []func(*http.Request){bearing(reader)}
		}
	}
	for path, change := range requests {
		res, _ := get(t, s, path, change...)
		cache := "no-store"
		if strings.HasSuffix(path, ".css") || strings.HasSuffix(path, ".js") {
			cache = "no-cache"
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": cache, "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		policy := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: no %q in %q", path, want, policy)
			}
		}
	}
}

// All links and forms stand behind the prefix, which is no other host.
func TestAPrefix(t *testing.T) {
	s := guarded(t, shownAs(t, Config{Path: "/ops/keyfold/"}, Sources{}, faulty(90)), onLoopback())
	for _, path := range []string{"/ops/keyfold", "/ops/keyfold/", "/ops/keyfold/workers", "/ops/keyfold/style.css"} {
		res, page := get(t, s, path)
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
		for _, part := range strings.Split(page, `href="`)[1:] {
			if !strings.HasPrefix(part, "/ops/keyfold/") && !strings.HasPrefix(part, "#") && !strings.HasPrefix(part, "data:,") {
				t.Errorf("%s has a link to %.40q", path, part)
			}
		}
	}
	for _, path := range []string{"/", "/workers", "/ops", "/ops/keyfoldx"} {
		if res, _ := get(t, s, path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	for _, bad := range []string{"ops", "//evil.example", "/a b", "/..", "/a/../b", "/a?b", "https://x/", "/\"><script>"} {
		if _, err := New(Config{Path: bad}, Sources{}, nil); err == nil {
			t.Errorf("the prefix %q is taken", bad)
		}
	}
}
