package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"keyfold/internal/testserver/must"
)

// from returns a POST of one event, shown with a token where there is one.
func from(address, token string) *http.Request {
	r := request(http.MethodPost, "/v1/events", asJSON, strings.NewReader(view(1)))
	r.RemoteAddr, r.Host = address, "localhost"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func status(t *testing.T, s http.Handler, r *http.Request) int {
	t.Helper()
	w, _ := serve(t, s, r)
	return w.Code
}

func TestTokens(t *testing.T) {
	c := onLoopback()
	c.TokenFile = filepath.Join(t.TempDir(), "tokens")
	c.Tokens = []string{"listed-token-0001"}
	must.OK(t, os.WriteFile(c.TokenFile, []byte("# ours\n  filed-token-00001\r\n\nfiled+token/00002==\n"), 0o600))
	m := newMemory()
	s := newTestServer(t, c, m)
	for authorization, want := range map[string]string{
		"Bearer listed-token-0001":    "202",
		"Bearer filed-token-00001":    "202",
		"bearer   filed-token-00001":  "202",
		"Bearer filed+token/00002==":  "202",
		"":                            "401 token_missing",
		"Bearer":                      "401 token_missing",
		"Bearer ":                     "401 token_missing",
		"Basic bGlzdGVkLXRva2VuOjE=":  "401 token_missing",
		"Bearer listed-token-0002":    "401 token_invalid",
		"Bearer listed-token-000":     "401 token_invalid",
		"Bearer filed-token-00001 ":   "401 token_invalid",
		"Bearer # ours":               "401 token_invalid",
		"Bearer \x00\xff' OR 1=1; --": "401 token_invalid",
	} {
		r := from("192.0.2.1:5", "")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		before := m.len()
		w, answer := serve(t, s, r)
		got := strconv.Itoa(w.Code)
		if len(answer.Errors) > 0 {
			got += " " + answer.Errors[0].Reason
		}
		challenge := w.Header().Get("WWW-Authenticate")
		if got != want || strings.Contains(want, "401") != strings.HasPrefix(challenge, "Bearer ") || strings.Contains(want, "invalid") != strings.Contains(challenge, "invalid_token") {
			t.Errorf("%q: %s, challenge %q, want %s", authorization, got, challenge, want)
		}
		if w.Code == 401 && m.len() != before {
			t.Errorf("%q: stored all the same", authorization)
		}
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/v1/event": 401, "/": 401} {
		if w, _ := serve(t, s, request(http.MethodGet, path, "", nil)); w.Code != want {
			t.Errorf("%s without a token: %d, want %d", path, w.Code, want)
		}
	}
}

// A token with scopes may be used for these alone, one without for all.
//
// Promise(api/scopes): A token that may not do what is asked gets 403 with the missing scope; a token
// without scopes may do all.
func TestScopes(t *testing.T) {
	c := onLoopback()
	c.TokenFile = filepath.Join(t.TempDir(), "tokens")
	must.OK(t, os.WriteFile(c.TokenFile, []byte("filed-token-00001 read,deliver\nfiled-token-00002\tsend\nfiled-token-00003\n"), 0o600))
	c.Tokens = strings.Split("listed-token-0001 read,send,listed-token-0002 admin,listed-token-0003", ",")
	s := newTestServer(t, c, newMemory())
	for token, want := range map[string]int{
		"filed-token-00001": 403, "filed-token-00002": 202, "filed-token-00003": 202,
		"listed-token-0001": 202, "listed-token-0002": 403, "listed-token-0003": 202,
		"listed-token-0001 read,send": 401, "read": 401,
	} {
		w, answer := serve(t, s, from("192.0.2.1:5", token))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", token, w.Code, want)
		}
		if challenge := w.Header().Get("WWW-Authenticate"); want == 403 && (answer.Errors[0].Reason != "scope_missing" || !strings.Contains(challenge, `scope="send"`)) {
			t.Errorf("%s: %+v, challenge %q", token, answer, challenge)
		}
	}
}

// What is wrong with a token's line is told without its text.
//
// Promise(api/scopes)
func TestFaultyScopes(t *testing.T) {
	for _, entry := range []string{"listed-token-0001 write", "listed-token-0001 ", "listed-token-0001 send,,read", "listed-token-0001 send read", "short send"} {
		c := onLoopback()
		c.Tokens = []string{"listed-token-0000", entry}
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), "httpapi.Config.Tokens: token 2 ") || strings.Contains(err.Error(), "listed") {
			t.Errorf("%q: %v", entry, err)
		}
	}
	c := onLoopback()
	c.Tokens = []string{"send", "read"} // they follow no token
	if err := c.Validate(); err == nil {
		t.Error("scopes without a token are taken")
	}
}

// With tokens a browser that was led here shows none: names do not matter.
func TestTokensUnderAnyName(t *testing.T) {
	c := onLoopback()
	c.Tokens = []string{goodToken}
	r := from("192.0.2.1:5", goodToken)
	r.Host = "events.shop.example"
	if got := status(t, newTestServer(t, c, newMemory()), r); got != 202 {
		t.Errorf("status %d", got)
	}
}

func TestRateOfEachSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onLoopback()
		c.Sender = Rate{PerSecond: 0.5, Burst: 3}
		s := newTestServer(t, c, newMemory())
		for _, sender := range []string{"192.0.2.1", "192.0.2.2", "[2001:db8::1]", "[2001:db8:0:1::1]"} {
			for i, want := range []int{202, 202, 202, 429} {
				if got := status(t, s, from(fmt.Sprintf("%s:%d", sender, 1000+i), "")); got != want {
					t.Errorf("%s, request %d: %d, want %d", sender, i+1, got, want)
				}
			}
		}
		if got := status(t, s, from("[2001:db8::ffff]:1", "")); got != 429 {
			t.Errorf("another address of the same network: %d", got)
		}
		w, answer := serve(t, s, from("192.0.2.1:9", ""))
		if w.Header().Get("Retry-After") != "2" || answer.Errors[0].Reason != "rate_limited" {
			t.Errorf("Retry-After %q, %+v", w.Header().Get("Retry-After"), answer)
		}
		time.Sleep(2 * time.Second)
		for i, want := range []int{202, 429} {
			if got := status(t, s, from("192.0.2.1:9", "")); got != want {
				t.Errorf("after Retry-After, request %d: %d, want %d", i+1, got, want)
			}
		}
	})
}

func TestRateOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onLoopback()
		c.Total, c.Tokens = Rate{PerSecond: 1, Burst: 2}, []string{goodToken, goodToken + "2"}
		c.Sender = Rate{PerSecond: 1, Burst: 4}
		s := newTestServer(t, c, newMemory())
		// Strangers use up their own bucket and nobody else's.
		for i, want := range []int{401, 401, 401, 401, 429, 429} {
			if got := status(t, s, from("192.0.2.1:9", "guess")); got != want {
				t.Errorf("guess %d: %d, want %d", i+1, got, want)
			}
		}
		for i, want := range []int{202, 202, 429} {
			if got := status(t, s, from("192.0.2.1:9", goodToken+strings.Repeat("2", i%2))); got != want {
				t.Errorf("request %d: %d, want %d", i+1, got, want)
			}
		}
		for range 10 {
			if w, _ := serve(t, s, request(http.MethodGet, "/livez", "", nil)); w.Code != 200 {
				t.Fatalf("a probe meets %d", w.Code)
			}
		}
	})
}

func TestSendersAreBounded(t *testing.T) {
	s := newRateLimits(Rate{PerSecond: 1, Burst: 1})
	for i := range 2 * maxSenders {
		s.of(strconv.Itoa(i))
	}
	if s.buckets.Len() != maxSenders {
		t.Errorf("%d buckets are kept", s.buckets.Len())
	}
	var all sync.WaitGroup
	buckets := make([]*rate.Limiter, 8)
	for i := range buckets {
		all.Go(func() { buckets[i] = s.of("one") })
	}
	all.Wait()
	for _, b := range buckets {
		if b != buckets[0] {
			t.Error("one sender has two buckets")
		}
	}
}

// Promise(security/slow-sender)
func TestConcurrencyIsBounded(t *testing.T) {
	c := onLoopback()
	c.MaxConcurrent = 1
	m := newMemory()
	arrived, leave := make(chan struct{}), make(chan struct{})
	m.adding = func(context.Context) { arrived <- struct{}{}; <-leave }
	s := newTestServer(t, c, m)
	var under sync.WaitGroup
	under.Go(func() { s.ServeHTTP(httptest.NewRecorder(), from("192.0.2.1:9", "")) })
	<-arrived
	if n := s.handler.stats.InFlight.Load(); n != 1 {
		t.Errorf("%d requests are in flight", n)
	}
	w, answer := serve(t, s, from("192.0.2.2:9", ""))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || answer.Errors[0].Reason != "busy" {
		t.Errorf("the second: %d %+v", w.Code, answer)
	}
	close(leave)
	under.Wait()
	m.adding = nil
	if got := status(t, s, from("192.0.2.2:9", "")); got != 202 {
		t.Errorf("once it is gone: %d", got)
	}
}
