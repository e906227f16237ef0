package httpapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// who answers with the name of its sender.
type who struct{ door }

func (who) Serve(r *Request) *Answer {
	if refused := r.Require(ScopeAdmin); refused != nil {
		return refused
	}
	return &Answer{Status: http.StatusOK, Body: r.Who()}
}

// A proxy names its users by a header. From elsewhere, twice, or too long the header says nothing;
// tokens are known beside it.
//
// Promise(dashboard/proxied-users): A user header counts from DASHBOARD_PROXIES alone, and once; from elsewhere the request
// is one without a token.
func TestUsersThatAProxyNames(t *testing.T) {
	config := DefaultConfig()
	config.Hosts = []string{"keyfold.example"}
	config.Users = ProxiedUsers{Header: "X-Forwarded-User", From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::7/128")}}
	tokens := config
	tokens.Tokens = []string{grantToken + " admin"}
	for _, c := range []struct {
		name, from    string
		names         []string
		token         bool
		alone, beside int // status without and with tokens
		says          string
	}{
		{"by the proxy", "10.0.0.7:1234", []string{"anna"}, false, 200, 200, "\"user anna\""},
		{"by IPv6", "[fd00::7]:1234", []string{"anna"}, false, 200, 200, "\"user anna\""},
		{"by IPv4 in IPv6", "[::ffff:10.0.0.7]:1", []string{" anna@example.com "}, false, 200, 200, "anna@example.com"},
		{"from elsewhere", "10.0.1.7:1234", []string{"anna"}, false, 401, 401, ""},
		{"from loopback", "127.0.0.1:1234", []string{"anna"}, false, 401, 401, ""},
		{"twice", "10.0.0.7:1234", []string{"anna", "root"}, false, 401, 401, ""},
		{"without a name", "10.0.0.7:1234", []string{" "}, false, 401, 401, ""},
		{"too long", "10.0.0.7:1234", []string{strings.Repeat("x", maxUser+1)}, false, 401, 401, ""},
		{"no header", "10.0.0.7:1234", nil, false, 401, 401, ""},
		{"a token", "10.0.1.7:1234", nil, true, 401, 200, "token "},
		{"a token and a foreign name", "10.0.1.7:1234", []string{"root"}, true, 401, 200, "token "},
	} {
		for given, want := range map[*Config]int{&config: c.alone, &tokens: c.beside} {
			server, err := NewServer(*given, NewHandler(who{}, slog.New(slog.DiscardHandler)))
			must.OK(t, err)
			r := httptest.NewRequest(http.MethodGet, "/x", nil)
			r.Host, r.RemoteAddr = "keyfold.example", c.from
			for _, name := range c.names {
				r.Header.Add("X-Forwarded-User", name)
			}
			if c.token {
				r.Header.Set("Authorization", "Bearer "+grantToken)
			}
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			if w.Code != want || want == http.StatusOK && !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%s, with tokens %t: %d %s, want %d %s", c.name, given == &tokens, w.Code, w.Body, want, c.says)
			}
		}
	}
	for _, half := range []ProxiedUsers{{Header: "X-User"}, {From: config.Users.From}} {
		config.Users = half
		if err := config.Validate(); err == nil {
			t.Errorf("%+v is taken", half)
		}
	}
}
