package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
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
	if err := json.Unmarshal(joined.About().OpenAPI, &got); err != nil {
		t.Fatal(err)
	}
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
