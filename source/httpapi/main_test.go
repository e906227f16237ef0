package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/internal/openapitest"
)

// The server keeps a connection it has cut off for half a second more.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// memory is an application that counts the items of POST /v1/events, and answers as the
// API of events does.
type memory struct {
	mu    sync.Mutex
	items int
	err   error
	ready error
	looks int
	// adding, where set, is called before the items are counted.
	adding func(context.Context)
}

func newMemory() *memory { return &memory{} }

var errDisk = errors.New("disk full")

func (m *memory) About() About {
	return About{OpenAPI: []byte("{}"), Cannot: "events cannot be stored", Failed: "failed", Again: "events are stored again"}
}

func (m *memory) Ready(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("the look may take for ever")
	}
	m.looks++
	return m.ready
}

func (m *memory) Serve(r *Request) *Answer {
	switch {
	case r.URL.Path != "/v1/events":
		return nil
	case r.Method != http.MethodPost:
		return RefuseMethod(r.Method, http.MethodPost)
	}
	if refused := r.Require(ScopeSend); refused != nil {
		return refused
	}
	ids := []string{}
	if refused := r.Each(func(index int, _ []byte, _ error) { ids = append(ids, fmt.Sprint(index)) }); refused != nil {
		return refused
	}
	if m.adding != nil {
		m.adding(r.Context())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if engine.KindOf(m.err) == engine.Permanent && m.err != nil {
		return &Answer{Status: http.StatusBadRequest, Body: Refusal{Errors: []Fault{{Reason: "store_refused", Error: "refused"}}}, Cause: m.err}
	}
	if m.err != nil {
		return Unavailable("store_failed", "the store failed", m.err)
	}
	m.items += len(ids)
	return &Answer{Status: http.StatusAccepted, Body: map[string]any{"accepted": len(ids), "duplicate": 0, "message_ids": ids}}
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.items
}

func newTestHandler(m *memory) *Handler { return NewHandler(m, slog.New(slog.DiscardHandler)) }

// anyAnswer is any answer of memory.
type anyAnswer struct {
	Accepted int    `json:"accepted"`
	Status   string `json:"status"`
	Refusal
}

// described is the description of the API of events.
var described = sync.OnceValue(func() openapitest.Description {
	text, err := os.ReadFile("../ingest/openapi.json")
	if err != nil {
		panic(err)
	}
	return openapitest.Parse(text)
})

// serve sends one request to h and reads the answer, which must be JSON, and one that the
// API of events describes.
func serve(t testing.TB, h http.Handler, r *http.Request) (*httptest.ResponseRecorder, anyAnswer) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Header().Get("Content-Type") != "application/json" || w.Header().Get(requestHeader) == "" {
		t.Errorf("%d with headers %v", w.Code, w.Header())
	}
	operations, _ := described().At("paths", r.URL.Path).(map[string]any)
	for _, operation := range operations { // of a path that is not described none
		described().CheckAnswer(t, r.URL.Path, operation, w)
	}
	var answer anyAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Errorf("%d: the answer is no JSON: %v", w.Code, err)
	}
	return w, answer
}

func post(t testing.TB, h http.Handler, contentType, body string) (*httptest.ResponseRecorder, anyAnswer) {
	t.Helper()
	return serve(t, h, request(http.MethodPost, "/v1/events", contentType, strings.NewReader(body)))
}

const asJSON = "application/json"

func request(method, path, contentType string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, path, body)
	r.Header.Set("Content-Type", contentType)
	return r
}

// view returns an item, numbered.
func view(n int) string { return fmt.Sprintf(`{"user_id":%d}`, n+1) }

func views(first, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = view(first + i)
	}
	return all
}
