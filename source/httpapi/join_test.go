package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

type part struct {
	description string
	fault       error
}

func (p part) About() About                { return About{OpenAPI: []byte(p.description)} }
func (p part) Ready(context.Context) error { return p.fault }
func (p part) Serve(*Request) *Answer      { return nil }

// Joined applications have one description, of all of their paths and under both titles, and are
// ready where all are.
func TestJoin(t *testing.T) {
	joined := Join(
		part{`{"info": {"title": "one"}, "paths": {"/a": {}}, "components": {"schemas": {"X": 1}}}`, nil},
		part{`{"info": {"title": "two"}, "paths": {"/b": {}}, "components": {"schemas": {"X": 2, "Y": 3}}}`, errors.New("two is away")},
	)
	var got, want any
	must.OK(t, json.Unmarshal(joined.About().OpenAPI, &got))
	_ = json.Unmarshal([]byte(`{"info": {"title": "one and two"}, "paths": {"/a": {}, "/b": {}}, "components": {"schemas": {"X": 1, "Y": 3}}}`), &want)
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("%s, want %s", a, b)
	}
	if err := joined.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "two is away") {
		t.Errorf("it is ready: %v", err)
	}
}

// pagesPart is an application whose refusals are pages.
type pagesPart struct{ part }

func (pagesPart) About() About {
	return About{Under: "/ui", InWords: func(_ *http.Request, a *Answer) *Answer { return &Answer{Status: a.Status, Page: []byte("in words")} }}
}

// A refusal has the form of the application that its path is of; one without a description adds none.
func TestJoinKeepsTheFormsOfRefusals(t *testing.T) {
	joined := Join(part{`{"info": {"title": "one"}}`, nil}, pagesPart{})
	if d := string(joined.About().OpenAPI); d != `{"info":{"title":"one"}}` {
		t.Errorf("described as %s", d)
	}
	h := NewHandler(joined, slog.New(slog.DiscardHandler))
	for path, want := range map[string]string{"/ui/x": "in words", "/ui/": "in words", "/uix": "not_found", "/v1/x": "not_found"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// greedy answers each path, as an application does that refuses those that it does not know.
type greedy struct{ part }

func (greedy) About() About           { return About{} }
func (greedy) Serve(*Request) *Answer { return &Answer{Status: http.StatusOK, Page: []byte("greedy")} }

// Paths under an application are its own, also behind one that answers all; without descriptions
// there is none.
func TestJoinLeavesPathsToTheirApplication(t *testing.T) {
	joined := Join(greedy{}, pagesPart{})
	if d := joined.About().OpenAPI; d != nil {
		t.Errorf("described as %s", d)
	}
	h := NewHandler(joined, slog.New(slog.DiscardHandler))
	for path, want := range map[string]string{"/ui": "in words", "/ui/x": "in words", "/uix": "greedy", "/v1/x": "greedy"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
