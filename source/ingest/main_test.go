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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store that keeps what it is given.
type memory struct {
	mu     sync.Mutex
	bodies map[string]string // by message id
	err    error
	// adding, where set, is called before a commit.
	adding func()
}

func newMemory() *memory { return &memory{bodies: map[string]string{}} }

var errDisk = errors.New("disk full")

func (m *memory) Add(_ context.Context, entries []Entry) ([]bool, error) {
	if m.adding != nil {
		m.adding()
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
		}
	}
	return fresh, nil
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.bodies)
}

func newTestHandler(s Store) *Handler { return NewHandler(s, slog.New(slog.DiscardHandler)) }

// reply is any answer of the door.
type reply struct {
	Accepted   int      `json:"accepted"`
	Duplicate  int      `json:"duplicate"`
	MessageIDs []string `json:"message_ids"`
	Status     string   `json:"status"`
	Errors     []struct {
		Index  *int   `json:"index"`
		Reason string `json:"reason"`
		Error  string `json:"error"`
	} `json:"errors"`
	More int `json:"more"`
}

// serve sends one request to h and reads the answer, which must be JSON.
func serve(t testing.TB, h http.Handler, r *http.Request) (*httptest.ResponseRecorder, reply) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var answer reply
	if w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d with content type %q", w.Code, w.Header().Get("Content-Type"))
	}
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		t.Errorf("%d: the answer is not what is documented: %v", w.Code, err)
	}
	return w, answer
}

func post(t testing.TB, h http.Handler, contentType, body string) (*httptest.ResponseRecorder, reply) {
	t.Helper()
	return serve(t, h, request(http.MethodPost, "/v1/events", contentType, strings.NewReader(body)))
}

func request(method, path, contentType string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, path, body)
	r.Header.Set("Content-Type", contentType)
	return r
}

// view returns a valid event, numbered.
func view(n int) string {
	return fmt.Sprintf(`{"user_id":%d,"event_type":"product_view","product_id":1,"occurred_at":"2025-02-10T14:30:00+00:00"}`, n+1)
}

func views(first, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = view(first + i)
	}
	return all
}
