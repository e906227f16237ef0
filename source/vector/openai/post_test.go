package openai_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"keyfold/engine"
	"keyfold/source/vector/openai"
)

const fits = `{"data":[{"index":0,"embedding":[1,2]}],"usage":{"total_tokens":7}}`

func two(c *openai.Config) { c.Dimensions = 2 }

// serve starts a server of one handler.
func serve(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s
}

// One POST to BaseURL/embeddings, of JSON, as the one who sends it.
func TestOnePost(t *testing.T) {
	for base, path := range map[string]string{
		"": "/embeddings", "/": "/embeddings", "/v1": "/v1/embeddings", "/v1/": "/v1/embeddings",
		"/openai/v1": "/openai/v1/embeddings", "/a%2Fb/v1": "/a%2Fb/v1/embeddings",
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.EscapedPath() != path || r.ContentLength <= 0 {
				t.Errorf("%q: %s %s, %d bytes", base, r.Method, r.URL.EscapedPath(), r.ContentLength)
			}
			for name, want := range map[string]string{"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "keyfold"} {
				if r.Header.Get(name) != want {
					t.Errorf("%s is %q", name, r.Header.Get(name))
				}
			}
			_, _ = io.WriteString(w, fits)
		})
		if _, err := newClient(t, s.URL+base, two).Embed(t.Context(), texts(1)); err != nil {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// What a server asks for in its headers is no reason to send twice: who calls
// knows what waits.
func TestNothingIsSentTwice(t *testing.T) {
	var asked atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("X-Should-Retry", "true")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	if _, err := newClient(t, s.URL).Embed(t.Context(), texts(1)); engine.ReasonOf(err) != "requests_fail" {
		t.Errorf("got %v", err)
	}
	if asked.Load() != 1 {
		t.Errorf("%d requests", asked.Load())
	}
}

// Answers are read to their end, those of failures too: requests that follow one
// another share a connection.
func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened, asked atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
			return
		}
		_, _ = io.WriteString(w, fits+strings.Repeat(" ", 100_000))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := newClient(t, s.URL, two)
	for i := range 6 {
		if _, err := c.Embed(t.Context(), texts(1)); (err != nil) != (i%2 == 1) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections", opened.Load())
	}
}

// The status counts though the body breaks off.
func TestRefusalsThatBreakOff(t *testing.T) {
	for status, reason := range map[int]string{401: "credentials_refused", 404: "not_there", 503: "requests_fail"} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":`)
		})
		if _, err := newClient(t, s.URL).Embed(t.Context(), texts(1)); engine.ReasonOf(err) != reason {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// An answer that breaks off is none.
func TestAnswersThatBreakOff(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, fits)
	})
	if _, err := newClient(t, s.URL, two).Embed(t.Context(), texts(1)); engine.ReasonOf(err) != "connection_ended" {
		t.Errorf("got %v", err)
	}
}

// A status below 400 without vectors is an answer that does not fit.
func TestOddSuccesses(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified, http.StatusMultipleChoices} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if _, err := newClient(t, s.URL).Embed(t.Context(), texts(1)); engine.ReasonOf(err) != "bad_answer" {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// Compressed answers are read, and bounded by what they become.
func TestCompressedAnswers(t *testing.T) {
	body := fits
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("it accepts %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		_, _ = io.WriteString(packed, body)
		_ = packed.Close()
	})
	c := newClient(t, s.URL, two)
	if _, err := c.Embed(t.Context(), texts(1)); err != nil {
		t.Error(err)
	}
	body = strings.Repeat(" ", 32<<20) + fits
	if _, err := c.Embed(t.Context(), texts(1)); engine.ReasonOf(err) != "bad_answer" {
		t.Errorf("a compressed answer of 32 MiB: %v", err)
	}
}

// A redirect within the server is followed with the body and the key; another
// server gets neither.
func TestRedirects(t *testing.T) {
	var other atomic.Int32
	elsewhere := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		other.Add(1)
		_, _ = io.WriteString(w, fits)
	})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/here/embeddings":
			http.Redirect(w, r, "/v1/embeddings", http.StatusTemporaryRedirect)
		case "/away/embeddings":
			http.Redirect(w, r, elsewhere.URL+"/embeddings", http.StatusPermanentRedirect)
		case "/round/embeddings":
			http.Redirect(w, r, "/round/embeddings", http.StatusTemporaryRedirect)
		default:
			if r.Header.Get("Authorization") != "Bearer "+key || !strings.Contains(string(body), "phrase 0") {
				t.Errorf("redirected: %v, %s", r.Header, body)
			}
			_, _ = io.WriteString(w, fits)
		}
	})
	if _, err := newClient(t, s.URL+"/here", two).Embed(t.Context(), texts(1)); err != nil {
		t.Error(err)
	}
	for path, cure := range map[string]string{"/away": "redirects to another server", "/round": "redirects in a circle"} {
		_, err := newClient(t, s.URL+path, two).Embed(t.Context(), texts(1))
		if engine.ReasonOf(err) != "cause_unknown" || !strings.Contains(fmt.Sprint(err), cure) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if other.Load() != 0 {
		t.Error("the other server was asked")
	}
}
