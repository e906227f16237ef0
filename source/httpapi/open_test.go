package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// door is an application with an open path, that answers with the fields of a form.
type door struct{}

func (door) About() About {
	return About{Open: []string{"/open"}, InWords: func(_ *http.Request, refused *Answer) *Answer {
		return &Answer{Status: refused.Status, Page: []byte("<p>later</p>"), Header: refused.Header}
	}}
}
func (door) Ready(context.Context) error { return nil }

func (door) Serve(r *Request) *Answer {
	if r.Method == http.MethodGet {
		if refused := r.Require(ScopeRead); refused != nil && r.URL.Path != "/open" {
			return refused
		}
		return &Answer{Status: http.StatusOK, Page: []byte("<p>open</p>"), Header: http.Header{"Content-Security-Policy": {"default-src 'self'"}}}
	}
	fields, refused := r.Form(100)
	if refused != nil {
		return refused
	}
	if refused := r.Require(ScopeSend); refused == nil {
		return refuse(http.StatusInternalServerError, "scope", "a request to an open path has a scope")
	}
	return &Answer{Status: http.StatusOK, Body: fields}
}

func serveDoor(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	config := DefaultConfig()
	change(&config)
	s, err := NewServer(config, NewHandler(door{}, slog.New(slog.DiscardHandler)))
	must.OK(t, err)
	return s
}

func knock(s *Server, method, path, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "shop.example"
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// An open path needs no token, whatever name of the host a request has, and gives no scope.
// All other paths need one.
func TestOpenPaths(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"with tokens": func(c *Config) { c.Tokens = []string{"token-of-a-test-01"} }, "on loopback": func(*Config) {},
	} {
		s := serveDoor(t, change)
		page := knock(s, "GET", "/open?t=x", "", "")
		if page.Code != 200 || page.Body.String() != "<p>open</p>" || page.Header().Get("Content-Type") != "text/html; charset=utf-8" || page.Header().Get("Content-Security-Policy") != "default-src 'self'" {
			t.Errorf("%s: %d %s %v", name, page.Code, page.Body, page.Header())
		}
		for _, path := range []string{"/open/", "/Open", "//open", "/other"} {
			if w := knock(s, "GET", path, "", ""); w.Code != 401 && w.Code != 403 {
				t.Errorf("%s: %s: %d", name, path, w.Code)
			}
		}
		if w := knock(s, "POST", "/open", typeForm, "a=1&b=2&a=3"); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"a":["1","3"],"b":["2"]}` {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// Requests to open paths use up the rate of their address and a total of their own: they
// cannot lock out those who have a token.
func TestRatesOfOpenPaths(t *testing.T) {
	s := serveDoor(t, func(c *Config) {
		c.Tokens, c.Total, c.Sender = []string{"token-of-a-test-01"}, Rate{0.001, 3}, Rate{0.001, 2}
	})
	for i, want := range []int{200, 200, 429} {
		if w := knock(s, "GET", "/open", "", ""); w.Code != want || (w.Header().Get("Retry-After") != "") != (want == 429) || want == 429 && w.Body.String() != "<p>later</p>" {
			t.Errorf("request %d: %d", i, w.Code)
		}
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodGet, "/other", nil)
		r.Header.Set("Authorization", "Bearer token-of-a-test-01")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("with a token: %d", w.Code)
		}
	}
}

// A form is read by its content type and within its bound.
func TestForms(t *testing.T) {
	s := serveDoor(t, func(*Config) {})
	const multipart = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n"
	for name, c := range map[string]struct {
		kind, body string
		status     int
	}{
		"multipart":     {"multipart/form-data; boundary=b", multipart, 200},
		"no boundary":   {"multipart/form-data", multipart, 400},
		"cut off":       {"multipart/form-data; boundary=b", multipart[:len(multipart)-8], 400},
		"an escape":     {typeForm, "a=%zz", 400},
		"a semicolon":   {typeForm, "a=1;b=2", 400},
		"at the bound":  {typeForm, "a=" + strings.Repeat("x", 98), 200},
		"over it":       {typeForm, "a=" + strings.Repeat("x", 99), 413},
		"JSON":          {typeJSON, "{}", 415},
		"no type":       {"", "a=1", 415},
		"other charset": {typeForm + "; charset=latin1", "a=1", 415},
		"empty":         {typeForm, "", 200},
	} {
		if w := knock(s, "POST", "/open", c.kind, c.body); w.Code != c.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
