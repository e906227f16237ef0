package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/service/profile/recommend"
	"keyfold/source/outbox"
	"keyfold/source/sample"
)

var serveListening = regexp.MustCompile(`"serve listening","url":"([^"]+)"`)

// asking asks `keyfold serve`.
type asking struct {
	t   *testing.T
	url string
}

func (s *shop) serve(t *testing.T, more ...string) asking {
	t.Helper()
	d := s.service(t, append([]string{"serve", "--http-addr=127.0.0.1:0"}, more...)...).ready()
	return asking{t, serveListening.FindStringSubmatch(d.log.String())[1]}
}

func (r asking) get(path string, into any) (status int, text string) {
	r.t.Helper()
	answer, err := http.Get(r.url + path)
	must.OK(r.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && into != nil && answer.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		r.t.Fatalf("%s: %v in %s", path, err, body)
	}
	return answer.StatusCode, string(body)
}

func recommendedIDs(a recommend.Answer) (ids []int32) {
	for _, p := range a.Products {
		ids = append(ids, p.ID)
	}
	return ids
}

// What users did is what they are recommended, with reasons, without what they bought; a
// product that is deleted or added is right in answers soon; an erased user is as one that
// never was; the command says the same.
//
// Promise(recommend/end-to-end): A shop posts events and reads recommendations with their reasons by HTTP, within seconds of each event and of each change of the catalogue.
func TestRecommendations(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	s.ingest(t).accepted(sorted(t, sampleOf(t, 200))...)
	s.allSent(t)
	s.work(t, quick).ready()
	o := s.expect(t, sorted(t, s.bodies(t)))
	s.folded(t, int64(o.Folded))
	r := s.serve(t)

	var view struct {
		Version   int32
		Embedding []float64
	}
	if status, text := r.get("/v1/users/1", &view); status != 200 || view.Version == 0 || view.Embedding != nil {
		t.Fatalf("%d %s", status, text)
	}
	var all, unseen recommend.Answer
	if status, text := r.get("/v1/users/1/recommendations?k=20&explain=true", &all); status != 200 || all.Basis != recommend.ByProfile || len(all.Products) != 20 || all.Note != "" {
		t.Fatalf("%d %s", status, text)
	}
	for _, p := range all.Products {
		if len(p.Because) == 0 || p.Remainder > 1e-6 || p.Remainder < -1e-6 {
			t.Errorf("product %d: %+v", p.ID, p)
		}
	}
	if status, text := r.get("/v1/users/1/recommendations?k=20&exclude=seen", &unseen); status != 200 || slices.Equal(recommendedIDs(unseen), recommendedIDs(all)) {
		t.Errorf("%d %s", status, text)
	}
	var command recommend.Answer
	out := s.must(t, "recommend", "1", "--k=20", "--exclude=seen", "-o", "json")
	if err := json.Unmarshal([]byte(out), &command); err != nil || !slices.Equal(recommendedIDs(command), recommendedIDs(unseen)) {
		t.Errorf("%v: the command says %v, the API %v", err, recommendedIDs(command), recommendedIDs(unseen))
	}

	// The catalogue changes.
	first := unseen.Products[0]
	products := s.collection(t).Database().Collection("product_embeddings")
	if gone, err := products.DeleteOne(t.Context(), bson.D{{Key: "product_id", Value: first.ID}}); err != nil || gone.DeletedCount != 1 {
		t.Fatalf("%+v, %v", gone, err)
	}
	file := filepath.Join(t.TempDir(), "new.ndjson")
	write(t, file, fmt.Sprintf("{\"product_id\":77777,\"product_name\":%q,\"category\":\"new\"}\n", first.Name))
	s.must(t, "products", "import", file, "--embed")
	eventually(t, "the catalogue is followed", func() error {
		var a recommend.Answer
		_, text := r.get("/v1/users/1/recommendations?k=20&exclude=seen", &a)
		if ids := recommendedIDs(a); slices.Contains(ids, first.ID) || !slices.Contains(ids, 77777) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	var similar recommend.Answer
	if status, text := r.get("/v1/products/77777/similar?k=3", &similar); status != 200 || len(similar.Products) != 3 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.get(fmt.Sprintf("/v1/products/%d/similar", first.ID), nil); status != 404 || !strings.Contains(text, "product_unknown") {
		t.Errorf("%d %s", status, text)
	}

	// A user without a profile, and one that is erased.
	s.must(t, "user", "forget", "1", "--yes")
	for user, reason := range map[string]string{"1": "user_erased", "999999": "user_unknown"} {
		var cold recommend.Answer
		if status, text := r.get("/v1/users/"+user+"/recommendations?k=5", &cold); status != 200 || cold.Basis != recommend.ByPopularity || len(cold.Products) != 5 {
			t.Errorf("user %s: %d %s", user, status, text)
		}
		if status, text := r.get("/v1/users/"+user, nil); status != 404 || !strings.Contains(text, reason) {
			t.Errorf("user %s: %d %s", user, status, text)
		}
	}
}

// Without DATABASE_URL there are recommendations, and what needs the history is refused with
// its cure; a token without the scope read is refused.
func TestRecommendationsWithoutAHistory(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	s.importProducts(t)
	s.ingest(t).accepted(sorted(t, sampleOf(t, 20))...)
	s.allSent(t)
	s.work(t, quick).ready()
	s.folded(t, int64(s.expect(t, sorted(t, s.bodies(t))).Folded))
	s.url = ""
	r := s.serve(t)
	var a recommend.Answer
	if status, text := r.get("/v1/users/1/recommendations", &a); status != 200 || len(a.Products) != 10 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.get("/v1/users/1/recommendations?exclude=bought", nil); status != 422 || !strings.Contains(text, "no_history") {
		t.Errorf("%d %s", status, text)
	}
	if code, _, errs := s.run(t, "recommend", "1", "--exclude=seen"); code != cli.ExitFailure || !strings.Contains(errs, "history") {
		t.Errorf("%d %s", code, errs)
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	write(t, tokens, "a-token-that-sends-only send\na-token-that-may-read read\n")
	guarded := s.serve(t, "--http-token-file="+tokens)
	for token, want := range map[string]int{"": 401, "a-token-that-sends-only": 403, "a-token-that-may-read": 200} {
		for _, path := range []string{"/v1/users/1", "/v1/users/1/recommendations", "/v1/products/1/similar"} {
			request, err := http.NewRequest(http.MethodGet, guarded.url+path, nil)
			must.OK(t, err)
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			answer, err := http.DefaultClient.Do(request)
			must.OK(t, err)
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%q %s: %d, want %d", token, path, answer.StatusCode, want)
			}
		}
	}
}

// serve may start before MongoDB: it waits for it, and stops at once where it is told to
// meanwhile.
func TestServeStartsBeforeItsStore(t *testing.T) {
	t.Parallel()
	broker, server := rabbittest.Shared(t), mongotest.StartProcess(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: server.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	server.Kill()
	serve := func() *daemon {
		d := startDaemon(t, s.flags("serve", "--http-addr=127.0.0.1:0")...)
		eventually(t, "serve waits", func() error { return d.logged(`"msg":"store not reachable`) })
		return d
	}
	waiting := serve()
	if code := waiting.stop(); code != 0 {
		t.Errorf("ended with %d:\n%s", code, waiting.log)
	}
	d := serve()
	server.Restart(t)
	d.ready()
	var similar recommend.Answer
	if status, text := (asking{t, serveListening.FindStringSubmatch(d.log.String())[1]}).get("/v1/products/1/similar?k=3", &similar); status != 200 || len(similar.Products) != 3 {
		t.Errorf("%d %s", status, text)
	}
}

// A catalogue that does not fit the memory limit is served, and the limit that it takes is named:
// by the log, the readiness, and status, which knows the role.
func TestCatalogueBeyondTheMemoryLimit(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	s.importProducts(t)
	s.env = append(s.env, "WORKER_MEMORY_LIMIT=64M") // the memory limit is a process's
	d, _ := s.spawn(t, "serve", "--http-addr=127.0.0.1:0")
	d.ready()
	const note = "does not fit WORKER_MEMORY_LIMIT (64M): set it to 9"
	eventually(t, "the readiness names the limit", func() error {
		if _, text := d.get("/readyz"); !strings.Contains(text, note) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	_, out, _ := s.run(t, "status", "--processes="+adminAddr.FindStringSubmatch(d.log.String())[1])
	if !strings.Contains(out, "serve") || !strings.Contains(out, note) {
		t.Errorf("%s", out)
	}
	if log := d.log.String(); strings.Count(log, "catalogue exceeds the memory limit") != 1 || !strings.Contains(log, "set WORKER_MEMORY_LIMIT to 9") {
		t.Errorf("%s", log)
	}
}

// rounded writes an answer with its numbers to nine digits, without their signs.
func rounded(t *testing.T, text string) string {
	t.Helper()
	return fractions.ReplaceAllStringFunc(text, func(n string) string {
		x, err := strconv.ParseFloat(n, 64)
		must.OK(t, err)
		return strings.TrimPrefix(fmt.Sprintf("%.9f", x), "-")
	})
}

var fractions = regexp.MustCompile(`-?\d+\.\d+(e-\d+)?`)

// By $vectorSearch the same is recommended as from memory, with the same scores and reasons, and
// without a delay after changes; and secondaries answer while there is no primary.
func TestRecommendationsSearchedByTheStore(t *testing.T) {
	t.Parallel()
	store := mongotest.Start(t)
	broker := rabbittest.Shared(t)
	s := &shop{stack: &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass}, url: newDatabase(t, outbox.SQLite)}
	s.setUp(t, "--database-url", s.url)
	s.ingest(t).accepted(sorted(t, sampleOf(t, 200))...)
	s.allSent(t)
	s.work(t, quick).ready()
	s.folded(t, int64(s.expect(t, sorted(t, s.bodies(t))).Folded))
	memory, searched := s.serve(t), s.serve(t, "--recommend-search=mongodb", "--recommend-secondaries")
	for _, path := range []string{
		"/v1/users/1/recommendations?k=20", "/v1/users/2/recommendations?k=20&exclude=seen&explain=true", "/v1/users/3/recommendations?k=5&diversity=0.5",
		"/v1/users/1/recommendations?category=" + url.QueryEscape(s.products[0].Category), "/v1/users/1/recommendations?category=none",
		"/v1/users/999999/recommendations?k=7", fmt.Sprintf("/v1/products/%d/similar?k=7", s.products[5].ID), "/v1/products/123456789/similar",
	} {
		status, text := searched.get(path, nil)
		if wantStatus, want := memory.get(path, nil); status != wantStatus || rounded(t, text) != rounded(t, want) {
			t.Errorf("%s: %d %.500s\nwant %d %.500s", path, status, text, wantStatus, want)
		}
	}
	var a recommend.Answer
	searched.get("/v1/users/1/recommendations?k=1", &a)
	_, err := s.collection(t).Database().Collection("product_embeddings").DeleteOne(t.Context(), bson.D{{Key: "product_id", Value: a.Products[0].ID}})
	must.OK(t, err)
	gone := a.Products[0].ID
	if status, text := searched.get("/v1/users/1/recommendations?k=20", &a); status != 200 || slices.Contains(recommendedIDs(a), gone) {
		t.Errorf("%d %s", status, text)
	}

	must.OK(t, store.StepDown(0))
	if status, text := searched.get("/v1/users/1/recommendations?k=3", &a); status != 200 || a.StaleSeconds != 0 || len(a.Products) != 3 {
		t.Errorf("without a primary: %d %s", status, text)
	}
	must.OK(t, store.StepUp(), store.RefuseConnections(0), store.Disconnect())
	if status, text := searched.get("/v1/users/1/recommendations?k=3", nil); status != 503 {
		t.Errorf("without a store: %d %s", status, text)
	}
	must.OK(t, store.AcceptConnections())
}
