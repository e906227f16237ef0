package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// app answers with what a function of a test says.
type app struct {
	serve func(*Request) *Answer
	fault error
}

func (a *app) About() About                { return About{Cannot: "requests cannot be answered"} }
func (a *app) Serve(r *Request) *Answer    { return a.serve(r) }
func (a *app) Ready(context.Context) error { return a.fault }

func TestApplication(t *testing.T) {
	var texts []string
	a := &app{serve: func(r *Request) *Answer {
		switch r.URL.Path {
		case "/each":
			texts = nil
			if refused := r.Each(func(_ int, text []byte, err error) {
				if err != nil {
					text = []byte("fault")
				}
				texts = append(texts, string(text))
			}); refused != nil {
				return refused
			}
			return &Answer{Status: http.StatusOK, Body: len(texts)}
		case "/many":
			return Refuse(http.StatusBadRequest, make([]Fault, MaxListed+3)...)
		case "/away":
			return Unavailable("away", "it is away", errors.New("a secret cause"))
		case "/beside":
			beside := Unavailable("away", "it is away", errors.New("a secret cause"))
			beside.Beside = true
			return beside
		case "/well":
			return &Answer{Status: http.StatusOK, Beside: r.Method == http.MethodGet}
		}
		return nil
	}}
	h := NewHandler(a, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
		answer                   string
	}{
		{"POST", "/each", "application/json", `[{"a":1},{"b":2}]`, 200, "2"},
		{"POST", "/each", "application/x-ndjson", "{}\n\n{}\n{}", 200, "3"},
		{"POST", "/each", "application/json", `[{"a":1}`, 200, "1"},
		{"POST", "/each", "text/plain", `{}`, 415, "content_type"},
		{"POST", "/each", "application/json", ` `, 400, "empty_body"},
		{"POST", "/each", "application/json", strings.Repeat("x", MaxRequestBytes+1), 413, "request_too_large"},
		{"GET", "/nothing", "", "", 404, "not_found"},
		{"POST", "/v1/events", "", "", 404, "not_found"},
		{"GET", "/many", "", "", 400, `"more":3`},
		{"GET", "/livez", "", "", 200, "ok"},
		{"GET", "/readyz", "", "", 200, "ok"},
		{"GET", "/beside", "", "", 503, "it is away"},
		{"GET", "/readyz", "", "", 200, "ok"},
		{"GET", "/away", "", "", 503, "it is away"},
		{"GET", "/readyz", "", "", 503, "requests cannot be answered now"},
		{"GET", "/well", "", "", 200, ""},
		{"GET", "/nothing", "", "", 404, "not_found"},
		{"GET", "/readyz", "", "", 503, "requests cannot be answered now"},
		{"POST", "/well", "", "", 200, ""},
		{"GET", "/readyz", "", "", 200, "ok"},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.answer) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, w.Code, w.Body, c.status, c.answer)
		}
	}
	// What requests held is free again.
	if h.memory.free != MaxInFlightBytes || h.slots.free != int64(DefaultConfig().MaxConcurrent) {
		t.Errorf("%d bytes and %d slots are free", h.memory.free, h.slots.free)
	}
}

// A request without a body counts among those that are answered at once, too.
func TestReadingApplicationTakesASlot(t *testing.T) {
	var h *Handler
	ask := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	second := 0
	a := &app{serve: func(r *Request) *Answer {
		if r.URL.Path == "/first" {
			second = ask("/second")
		}
		return &Answer{Status: http.StatusOK, Body: 1}
	}}
	h = NewHandler(a, slog.New(slog.DiscardHandler))
	h.slots = newShares(1)
	if first := ask("/first"); first != 200 || second != 503 {
		t.Errorf("the first is answered %d, the second meanwhile %d", first, second)
	}
	if status := ask("/second"); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}
