package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/openapitest"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/source/catalog/index"
	"keyfold/source/httpapi"
)

var description = openapitest.Parse(openAPI)

var parameter = regexp.MustCompile(`\{\w+\}`)

// shop is what the API reads: user 7 has a profile with two vectors, user 8 is erased, and
// user 10 has one of another model.
type shop struct {
	away   error
	unread error // the catalogue is not in memory yet
	lost   error // of the history alone
}

func (s *shop) Load(_ context.Context, users []int32) ([]*profile.Profile, error) {
	all := make([]*profile.Profile, len(users))
	for i, user := range users {
		switch user {
		case 7:
			all[i] = &profile.Profile{
				UserID: 7, Version: 2, Vector: []float64{1, 0, 0}, Mass: 1, Updated: 1_770_000_000_000, History: profile.Mass, Model: "m", EventCount: 1,
				LastType: profile.ProductPurchase, Short: profile.Short{Vector: []float64{0, 1, 0}, Mass: 1, HalfLife: 60_000_000_000},
			}
		case 8:
			all[i] = &profile.Profile{UserID: 8, Version: 3, ErasedAt: 1_770_000_000_000}
		case 10:
			all[i] = &profile.Profile{UserID: 10, Version: 1, Vector: []float64{1, 0, 0}, Mass: 1, Updated: 1_770_000_000_000, History: profile.Mass, Model: "old"}
		}
	}
	return all, s.away
}

func (s *shop) Events(context.Context, int32, *profile.Profile) ([]explanation.Event, string, error) {
	return []explanation.Event{{Event: profile.Event{UserID: 7, Type: profile.ProductPurchase, ProductID: 1, OccurredAt: 1_770_000_000_000, MessageID: "a"}}}, "", cmp.Or(s.lost, s.away)
}

func (s *shop) Products(context.Context, int32, bool) ([]int32, error) {
	return []int32{1}, cmp.Or(s.lost, s.away)
}

func (s *shop) Counts(context.Context, int) (map[int32]int64, error) {
	return map[int32]int64{1: 3, 2: 9}, cmp.Or(s.lost, s.away)
}

func (s *shop) Resolve(_ context.Context, phrases []string) []engine.Resolved {
	return make([]engine.Resolved, len(phrases))
}

func newHandler(t *testing.T, s *shop) *httpapi.Handler {
	laws := profile.DefaultConfig()
	laws.Dimensions, laws.Model = 3, "m"
	products := index.New(3, "m")
	for i, v := range [][]float32{{1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {0, 0, 1}} {
		products.Put(profile.Product{ID: int32(i + 1), Name: fmt.Sprint("product ", i+1), Category: []string{"a", "b"}[i%2], Vector: v})
	}
	r, err := recommend.New(recommend.DefaultConfig(), recommend.Ports{Profiles: s, Products: recommend.InMemory{Index: products}, History: s, Phrases: s, Laws: laws})
	must.OK(t, err)
	return httpapi.NewHandler(New(Ports{Recommender: r, Ready: func(context.Context) error { return s.unread }}), slog.New(slog.DiscardHandler))
}

// ask answers a request, and checks that the answer is described.
func ask(t *testing.T, h http.Handler, method, target, body string) (status int, text string) {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for template, operations := range description.At("paths").(map[string]any) {
		if matched, _ := path.Match(parameter.ReplaceAllString(template, "*"), r.URL.EscapedPath()); matched {
			for _, operation := range operations.(map[string]any) {
				description.CheckAnswer(t, method+" "+target, operation, w)
			}
		}
	}
	return w.Code, w.Body.String()
}

// Every request is answered as it is described: what is there, what is not, what is at
// fault.
//
// Promise(recommend/described): Every answer of `keyfold serve` in its tests fits `/openapi.json`; parameters that are unknown or out of range are refused.
func TestAnswers(t *testing.T) {
	h := newHandler(t, &shop{})
	for _, test := range []struct {
		method, target, body string
		status               int
		says                 string
	}{
		{"GET", "/v1/users/7", "", 200, `"version":2`},
		{"GET", "/v1/users/7?vector=true", "", 200, `"embedding_short":[0,1,0]`},
		{"GET", "/v1/users/7?vector=perhaps", "", 400, "must be true or false"},
		{"GET", "/v1/users/8", "", 404, "user_erased"},
		{"GET", "/v1/users/9", "", 404, "user_unknown"},
		{"GET", "/v1/users/0", "", 400, "bad_id"},
		{"GET", "/v1/users/2147483648", "", 400, "bad_id"},
		{"GET", "/v1/users/%20", "", 400, "bad_id"},
		{"POST", "/v1/users/7", "{}", 405, "method"},
		{"GET", "/v1/users/7/recommendations", "", 200, `"mix":0.5`},
		{"GET", "/v1/users/7/recommendations?mix=0&k=1", "", 200, `"recommendations":[{"product_id":1,"product_name":"product 1","category":"a","score":1}]`},
		{"GET", "/v1/users/7/recommendations?exclude=bought&mix=0&k=1", "", 200, `"product_id":2`},
		{"GET", "/v1/users/7/recommendations?explain=true&mix=0&k=1", "", 200, `"because":[{"message_id":"a"`},
		{"GET", "/v1/users/7/recommendations?popularity=1&mix=0&k=1", "", 200, `"popularity":1,"recommendations":[{"product_id":2,"product_name":"product 2","category":"b","score":1,"cosine":0.7`},
		{"GET", "/v1/users/7/recommendations?popularity=0.1&mix=0&k=1&explain=true", "", 200, `"popularity_share":`},
		{"GET", "/v1/users/7/recommendations?popularity=2", "", 400, "popularity is 2: it must be between 0 and 1"},
		{"GET", "/v1/products/1/similar?popularity=1", "", 400, "is no parameter here"},
		{"POST", "/v1/recommendations", `{"users":[7,9],"k":1,"mix":0,"popularity":1}`, 200, `{"answers":[{"user_id":7,"basis":"profile","profile_version":2,"profile_last_updated":"2026-02-02T02:40:00Z","popularity":1`},
		{"POST", "/v1/recommendations", `{"vector":[1,0,0],"popularity":0.5}`, 400, "are of users"},
		{"GET", "/v1/users/7/recommendations?category=b&k=200&diversity=1", "", 200, `"product_id":2`},
		{"GET", "/v1/users/7/recommendations?category=none", "", 200, `"recommendations":[]`},
		{"GET", "/v1/users/8/recommendations?k=1", "", 200, `"basis":"popularity","recommendations":[{"product_id":2`},
		{"GET", "/v1/users/9/recommendations?exclude=bought", "", 200, `"basis":"popularity"`},
		{"GET", "/v1/users/7/recommendations?k=0&mix=2&diversity=NaN&exclude=all", "", 400, "k is 0: it must be between 1 and 200"},
		{"GET", "/v1/users/7/recommendations?mix=-1", "", 400, "mix is -1"},
		{"GET", "/v1/users/7/recommendations?k=1&k=2", "", 400, "given 2 times"},
		{"GET", "/v1/users/7/recommendations?K=1", "", 400, "is no parameter here"},
		{"GET", "/v1/users/7/recommendations?k=%zz", "", 400, "cannot be read"},
		{"GET", "/v1/products/1/similar?k=1", "", 200, `"basis":"product","recommendations":[{"product_id":2`},
		{"GET", "/v1/products/5/similar", "", 404, "product_unknown"},
		{"GET", "/v1/products/1/similar?mix=0.5", "", 400, "is no parameter here"},
		{"POST", "/v1/recommendations", `{"users":[7,9],"k":1,"mix":0}`, 200, `{"answers":[{"user_id":7,"basis":"profile"`},
		{"POST", "/v1/recommendations", `{"vector":[0,0,2],"k":1}`, 200, `{"answers":[{"basis":"vector","recommendations":[{"product_id":4,"product_name":"product 4","category":"b","score":1}]}]}`},
		{"POST", "/v1/recommendations", `{"vector":[0,0],"k":1}`, 422, "wrong_dimensions"},
		{"POST", "/v1/recommendations", `{"vector":[0,0,0]}`, 422, "zero_vector"},
		{"POST", "/v1/recommendations", `{}`, 400, "either users or a vector"},
		{"POST", "/v1/recommendations", `{"users":[],"vector":[]}`, 400, "either users or a vector"},
		{"POST", "/v1/recommendations", `{"users":[0]}`, 400, "users[0] is 0"},
		{"POST", "/v1/recommendations", `{"users":[7],"topk":3}`, 400, "malformed_json"},
		{"POST", "/v1/recommendations", `{"users":[7],"users":[8]}`, 400, "malformed_json"},
		{"POST", "/v1/recommendations", `{"vector":[1,0,0],"explain":true}`, 400, "are of users"},
		{"GET", "/v1/recommendations", "", 405, "method"},
		{"GET", "/v1/users/7/", "", 404, "not_found"},
		{"GET", "/v1/products/1", "", 404, "not_found"},
	} {
		status, text := ask(t, h, test.method, test.target, test.body)
		if status != test.status || !strings.Contains(text, test.says) {
			t.Errorf("%s %s %s: %d %s\nwant %d with %s", test.method, test.target, test.body, status, text, test.status, test.says)
		}
	}
	description.CheckReferences(t)
}

// While the stores are away, a request that needs them is answered 503, and one that does not
// as ever.
func TestAway(t *testing.T) {
	s := &shop{}
	h := newHandler(t, s)
	s.away = fmt.Errorf("%w: it is down", engine.ErrAway)
	for target, want := range map[string]int{
		"/v1/users/7": 503, "/v1/users/7/recommendations": 503, "/v1/users/9/recommendations": 503, "/v1/products/1/similar": 200,
	} {
		if status, text := ask(t, h, "GET", target, ""); status != want || strings.Contains(text, "it is down") {
			t.Errorf("%s: %d %s, want %d", target, status, text, want)
		}
	}
	ask(t, h, "GET", "/v1/users/7", "")
	if status, text := ask(t, h, "GET", "/readyz", ""); status != 503 {
		t.Errorf("ready after a request that the store failed: %d %s", status, text)
	}
}

// posts is another application, which takes posts.
type posts struct{}

func (posts) About() httpapi.About {
	return httpapi.About{OpenAPI: []byte(`{"openapi":"3.1.0","paths":{"/v1/events":{"post":{}}},"components":{"schemas":{"Event":{"type":"object"}}}}`)}
}

func (posts) Serve(r *httpapi.Request) *httpapi.Answer {
	if r.URL.Path != "/v1/events" {
		return nil
	}
	body, _ := io.ReadAll(r.Body)
	return &httpapi.Answer{Status: http.StatusAccepted, Body: len(body)}
}

func (posts) Ready(context.Context) error { return nil }

// Joined with another application, each answers its own paths, and the description has both.
func TestJoined(t *testing.T) {
	s := &shop{}
	laws := profile.DefaultConfig()
	laws.Dimensions, laws.Model = 3, "m"
	r, err := recommend.New(recommend.DefaultConfig(), recommend.Ports{Profiles: s, Products: recommend.InMemory{Index: index.New(3, "m")}, Laws: laws})
	must.OK(t, err)
	reading := New(Ports{Recommender: r, Ready: func(context.Context) error { return s.away }})
	h := httpapi.NewHandler(httpapi.Join(posts{}, reading), slog.New(slog.DiscardHandler))
	for target, want := range map[string]int{"/v1/users/7": 200, "/nowhere": 404, "/readyz": 200} {
		if status, text := ask(t, h, "GET", target, ""); status != want {
			t.Errorf("%s: %d %s", target, status, text)
		}
	}
	if status, text := ask(t, h, "POST", "/v1/events", "{}"); status != 202 {
		t.Errorf("%d %s", status, text)
	}
	_, text := ask(t, h, "GET", "/openapi.json", "")
	var joined struct {
		Paths      map[string]any
		Components map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(text), &joined); err != nil || joined.Paths["/v1/events"] == nil || joined.Paths["/v1/users/{id}"] == nil ||
		joined.Components["schemas"]["Event"] == nil || joined.Components["schemas"]["Answer"] == nil {
		t.Errorf("%v in %s", err, text)
	}
	s.away = fmt.Errorf("%w: it is down", engine.ErrAway)
	if status, _ := ask(t, httpapi.NewHandler(httpapi.Join(posts{}, reading), slog.New(slog.DiscardHandler)), "GET", "/readyz", ""); status != 503 {
		t.Errorf("ready: %d", status)
	}
}

// Until the catalogue was read, a request for products is answered 503, not with a part of
// them; a profile needs no catalogue.
func TestCatalogueUnread(t *testing.T) {
	s := &shop{}
	r := newHandler(t, s)
	s.unread = errors.New("the catalogue is being read")
	for target, want := range map[string]int{
		"/v1/users/7": 200, "/v1/users/7/recommendations": 503, "/v1/users/9/recommendations": 503, "/v1/products/1/similar": 503,
	} {
		if status, text := ask(t, r, "GET", target, ""); status != want {
			t.Errorf("%s: %d %s, want %d", target, status, text, want)
		}
	}
	if status, text := ask(t, r, "POST", "/v1/recommendations", `{"vector":[1,0,0]}`); status != 503 {
		t.Errorf("%d %s", status, text)
	}
}

// A profile that cannot be used is answered 503, and the others as ever: the process stays
// ready.
func TestUnusableProfile(t *testing.T) {
	h := newHandler(t, &shop{})
	// Among several users each has an answer of its own.
	status, text := ask(t, h, "POST", "/v1/recommendations", `{"users":[10,7],"k":1}`)
	if status != 200 || !strings.Contains(text, `{"user_id":10,"basis":"none","note":"the profile of user 10`) || !strings.Contains(text, `"user_id":7,"basis":"profile"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask(t, h, "GET", "/v1/users/10/recommendations", ""); status != 503 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask(t, h, "GET", "/readyz", ""); status != 200 {
		t.Errorf("ready: %d %s", status, text)
	}
}

// A vector so short that its length has no inverse still has a direction.
func TestShortVector(t *testing.T) {
	h := newHandler(t, &shop{})
	if status, text := ask(t, h, "POST", "/v1/recommendations", `{"vector":[0,0,1e-310],"k":1}`); status != 200 || !strings.Contains(text, `"product_id":4,"product_name":"product 4","category":"b","score":1}`) {
		t.Errorf("%d %q", status, text)
	}
}

// While the history alone is away, what needs it is answered 503, and the process stays ready
// for the other requests.
func TestHistoryAway(t *testing.T) {
	h := newHandler(t, &shop{lost: fmt.Errorf("%w: it is down", engine.ErrAway)})
	for _, target := range []string{"/v1/users/7/recommendations?exclude=bought", "/v1/users/7/recommendations?explain=true", "/v1/users/9/recommendations"} {
		if status, text := ask(t, h, "GET", target, ""); status != 503 {
			t.Errorf("%s: %d %s", target, status, text)
		}
		if status, text := ask(t, h, "GET", "/readyz", ""); status != 200 {
			t.Errorf("ready after %s: %d %s", target, status, text)
		}
	}
	if status, text := ask(t, h, "GET", "/v1/users/7/recommendations", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}
