package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/redistest"

	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/sample"
	"keyfold/source/vector/openai"
)

// apiKey is what the test's embedding service wants to be sent. No output of a
// command and no log may hold it.
const apiKey = "sk-test-4fb1c0ffee-d0n0tpr1nt"

// apiStack is a stack whose phrases and products are embedded by a server that
// speaks OpenAI's protocol over HTTP. It has the offline embedder's vectors, so
// that the oracle knows them.
type apiStack struct {
	*stack
	api   *embedtest.Server
	redis *redistest.Server // nil: none
	more  []string          // flags of every command
}

// newAPIStack sets one up, as newStack does: retries wait for a fifth of a second, and are one.
func newAPIStack(t *testing.T) *apiStack {
	t.Helper()
	return newAPIStackWith(t, "--retry-delay=200ms", "--max-retries=1")
}

func newAPIStackWith(t *testing.T, more ...string) *apiStack {
	t.Helper()
	t.Parallel()
	broker := rabbittest.Shared(t)
	a := &apiStack{
		stack: &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass},
		api:   embedtest.Start(t, embedtest.Config{Dimensions: dimensions, Model: openai.DefaultModel, Key: apiKey, Seed: 7}),
		more:  more,
	}
	if code, _, errs := a.run(t, "", "setup"); code != 0 {
		t.Fatalf("setup: %s", errs)
	}
	if code, _, errs := a.run(t, catalogue(t, a.products), "products", "import", "-", "--embed"); code != 0 {
		t.Fatalf("products import: %s", errs)
	}
	return a
}

// withRedis gives the commands from now on a Redis.
func (a *apiStack) withRedis(t *testing.T) *apiStack {
	t.Helper()
	a.redis = redistest.Start(t)
	return a
}

// catalogue is an import file without vectors.
func catalogue(t *testing.T, products []profile.Product) string {
	t.Helper()
	var lines strings.Builder
	encode := json.NewEncoder(&lines)
	for _, p := range products {
		must.OK(t, encode.Encode(map[string]any{"product_id": p.ID, "product_name": p.Name, "category": p.Category}))
	}
	return lines.String()
}

// args are flags that point a command at the service.
func (a *apiStack) args(more ...string) []string {
	args := []string{"--embedder=openai", "--openai-base-url", a.api.URL(), "--openai-api-key", apiKey}
	if a.redis != nil {
		args = append(args, "--redis-url", a.redis.URL())
	}
	return append(append(args, a.more...), more...)
}

// run runs a command to its end. What it prints is searched for the key.
func (a *apiStack) run(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	code, out, errs = keyfold(t.Context(), stdin, a.flags(a.args(args...)...)...)
	noKey(t, out, errs)
	return code, out, errs
}

// work starts a worker. What it has logged is searched for the key in the end.
func (a *apiStack) work(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := a.stack.work(t, a.args(args...)...)
	t.Cleanup(func() { noKey(t, d.log.String()) })
	return d
}

func noKey(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(text, apiKey) || strings.Contains(text, "d0n0tpr1nt") {
			t.Errorf("the API's key was printed:\n%s", text)
		}
	}
}

// open reads the store as a worker of the service's model does.
func (a *apiStack) open(t *testing.T) *mongodb.Store {
	t.Helper()
	c := mongodb.DefaultConfig()
	c.URI, c.Dimensions, c.History, c.Model = a.mongo, dimensions, a.history, openai.DefaultModel
	store, err := mongodb.Open(t.Context(), c)
	must.OK(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}

// vector asks the service itself, in the plainest way, and returns a phrase's
// unit vector.
func (a *apiStack) vector(t *testing.T, phrase string) []float64 {
	t.Helper()
	body, err := json.Marshal(map[string]any{"input": phrase, "model": openai.DefaultModel, "dimensions": dimensions})
	must.OK(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.api.URL()+"/embeddings", bytes.NewReader(body))
	must.OK(t, err)
	request.Header.Set("Authorization", "Bearer "+apiKey)
	response, err := http.DefaultClient.Do(request)
	must.OK(t, err)
	defer response.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var answer struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Data) != 1 {
		t.Fatalf("the service answered %d: %v", response.StatusCode, err)
	}
	unit, err := engine.Unit(answer.Data[0].Embedding, dimensions)
	must.OK(t, err)
	return unit
}

// asked is what the service was asked since before.
func (a *apiStack) asked(before embedtest.Counts) (requests, inputs int) {
	now := a.api.Counts()
	return now.Requests - before.Requests, now.Inputs - before.Inputs
}

// searches makes n search events, spread over users; mark begins their ids.
func searches(n, users int, mark string, phrase func(i int) string) [][]byte {
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = event(int32(1+i%users), profile.Search, phrase(i), hourAgo().Add(milliseconds(i)), fmt.Sprintf("%s%d", mark, i))
	}
	return bodies
}
