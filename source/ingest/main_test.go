package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/httpapi"
)

// The server keeps a connection it has cut off for half a second more.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// memory is a store that keeps what it is given.
type memory struct {
	mu     sync.Mutex
	bodies map[string]string // by message id
	events map[string]profile.Event
	err    error
	// adding, where set, is called before a commit.
	adding func(context.Context)
}

func newMemory() *memory {
	return &memory{bodies: map[string]string{}, events: map[string]profile.Event{}}
}

var errDisk = errors.New("disk full")

func (m *memory) Add(ctx context.Context, entries []profile.Entry) ([]bool, error) {
	if m.adding != nil {
		m.adding(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	fresh := make([]bool, len(entries))
	for i, e := range entries {
		_, known := m.bodies[e.Event.MessageID]
		fresh[i] = !known
		if !known {
			m.bodies[e.Event.MessageID] = string(e.Body)
			m.events[e.Event.MessageID] = e.Event
		}
	}
	return fresh, nil
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.bodies)
}

// handler is an API that is served without access control.
type handler struct {
	*httpapi.Handler
	api *API
}

func newTestHandler(s Store) handler { return handlerWith(s, slog.DiscardHandler) }

func handlerWith(s Store, log slog.Handler) handler {
	api := New(s, nil)
	return handler{httpapi.NewHandler(api, slog.New(log)), api}
}

// onLoopback returns settings for a test: a free port, no rates.
func onLoopback(tokens ...string) httpapi.Config {
	c := httpapi.DefaultConfig()
	c.Addr, c.Total, c.Sender, c.Tokens = "127.0.0.1:0", httpapi.Rate{}, httpapi.Rate{}, tokens
	return c
}

func newTestServer(t testing.TB, c httpapi.Config, s Store) *httpapi.Server {
	t.Helper()
	server, err := httpapi.NewServer(c, newTestHandler(s).Handler)
	must.OK(t, err)
	return server
}

// anyAnswer is any answer of the API.
type anyAnswer struct {
	Accepted   int      `json:"accepted"`
	Duplicate  int      `json:"duplicate"`
	MessageIDs []string `json:"message_ids"`
	Status     string   `json:"status"`
	Refused    int      `json:"refused"`
	Results    []result `json:"results"`
	httpapi.Refusal
}

// serve sends one request to h and reads the answer, which must be JSON.
func serve(t testing.TB, h http.Handler, r *http.Request) (*httptest.ResponseRecorder, anyAnswer) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	checkDescribed(t, r, w)
	var answer anyAnswer
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		t.Errorf("%d: the answer is not what is documented: %v", w.Code, err)
	}
	return w, answer
}

func post(t testing.TB, h http.Handler, contentType, body string) (*httptest.ResponseRecorder, anyAnswer) {
	t.Helper()
	return serve(t, h, request(http.MethodPost, "/v1/events", contentType, strings.NewReader(body)))
}

func request(method, path, contentType string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, path, body)
	r.Header.Set("Content-Type", contentType)
	return r
}

// view returns a valid event, numbered, of a time before that of synctest.
func view(n int) string {
	return fmt.Sprintf(`{"user_id":%d,"event_type":"product_view","product_id":1,"occurred_at":"1999-02-10T14:30:00+00:00"}`, n+1)
}

func views(first, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = view(first + i)
	}
	return all
}

const goodToken = "0123456789abcdef"

// from returns a POST of one event, shown with a token.
func from(address, token string) *http.Request {
	r := request(http.MethodPost, eventsPath, asJSON, strings.NewReader(view(1)))
	r.RemoteAddr, r.Host = address, "localhost"
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}
