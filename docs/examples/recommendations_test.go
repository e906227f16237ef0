package examples_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	reading "keyfold/service/profile/api"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/source/catalog/index"
	"keyfold/source/httpapi"
)

// shelves is a shop of three products, one of whose names is hostile. User 17 has searched
// for boots and bought product 3.
type shelves struct{}

var (
	bought   = profile.Event{UserID: 17, Type: profile.ProductPurchase, ProductID: 3, OccurredAt: 1_770_000_000_000, MessageID: "bought"}
	searched = profile.Event{UserID: 17, Type: profile.Search, Phrase: "boots", OccurredAt: 1_770_000_000_000, MessageID: "searched"}
)

func (shelves) Load(_ context.Context, users []int32) ([]*profile.Profile, error) {
	all := make([]*profile.Profile, len(users))
	for i, user := range users {
		if user == 17 {
			end := profile.DefaultConfig().Fold(profile.State{}, []profile.Step{
				{Vector: []float64{1, 0}, Weight: 0.7, At: searched.OccurredAt}, {Vector: []float64{0, 1}, Weight: 1, At: bought.OccurredAt},
			})
			all[i] = &profile.Profile{UserID: 17, Version: 1, Vector: end.Vector, Mass: end.Mass, Updated: end.Updated, History: profile.Mass, Model: "m"}
		}
	}
	return all, nil
}

func (shelves) Events(context.Context, int32, *profile.Profile) ([]explanation.Event, string, error) {
	return []explanation.Event{{Event: bought}, {Event: searched}}, "", nil
}

func (shelves) Products(context.Context, int32, bool) ([]int32, error) {
	return []int32{bought.ProductID}, nil
}

func (shelves) Counts(context.Context, int) (map[int32]int64, error) {
	return map[int32]int64{2: 5}, nil
}

func (shelves) Resolve(_ context.Context, phrases []string) []engine.Resolved {
	all := make([]engine.Resolved, len(phrases))
	for i := range all {
		all[i].Vector = []float64{1, 0}
	}
	return all
}

// serving serves the shop and returns the environment of its clients.
func serving(t *testing.T) []string {
	t.Helper()
	products, laws := index.New(2, "m"), profile.DefaultConfig()
	laws.Dimensions, laws.Model = 2, "m"
	products.Put(profile.Product{ID: 1, Name: "hiking boots", Vector: []float32{1, 0}}, profile.Product{ID: 2, Name: "<script>alert(1)</script>", Vector: []float32{0, 1}},
		profile.Product{ID: 3, Name: "socks", Vector: []float32{0, 1}})
	r, err := recommend.New(recommend.DefaultConfig(), recommend.Ports{Profiles: shelves{}, Products: recommend.InMemory{Index: products}, History: shelves{}, Phrases: shelves{}, Laws: laws})
	must.OK(t, err)
	c := httpapi.DefaultConfig()
	c.Tokens = []string{token + " read"}
	ready := func(context.Context) error { return nil }
	server, err := httpapi.NewServer(c, httpapi.NewHandler(reading.New(reading.Ports{Recommender: r, Ready: ready}), slog.New(slog.DiscardHandler)))
	must.OK(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return []string{"KEYFOLD_URL=http://" + l.Addr().String(), "KEYFOLD_TOKEN=" + token, "KEYFOLD_TIMEOUT=30"}
}

// Each client prints what is recommended, without what was bought, and goes on without
// recommendations where keyfold refuses or does not answer.
func TestRecommendationClients(t *testing.T) {
	environment := serving(t)
	program := filepath.Join(t.TempDir(), "recommend")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./golang/recommend").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, client := range [][]string{{"python3", "python/recommendations.py"}, {"node", "node/recommendations.mjs"}, {program}} {
		code, out, errs := run(t, environment, "", with(client, "17")...)
		want := "0.819  <script>alert(1)</script>\n0.573  hiking boots"
		if code != 0 || out != want {
			t.Errorf("%v: %d %s %s", client, code, out, errs)
		}
		for reason, broken := range map[string][]string{
			"401": with(environment, "KEYFOLD_TOKEN=another-token-of-somebody"), "keyfold": with(environment, "KEYFOLD_URL=http://127.0.0.1:1"),
		} {
			if code, out, errs := run(t, broken, "", with(client, "17")...); code != 0 || out != "" || !strings.Contains(errs, reason) && !strings.Contains(errs, "refused") {
				t.Errorf("%v without %s: %d %s %s", client, reason, code, out, errs)
			}
		}
	}
}

// The page shows products with reasons, and nothing that is in a name is executed; it is a
// page also where keyfold does not answer.
func TestRecommendationPage(t *testing.T) {
	environment := serving(t)
	code, out, errs := run(t, environment, "", "php", "recommendations.php", "17")
	for _, want := range []string{
		`<a href="/products/2">&lt;script&gt;alert(1)&lt;/script&gt;</a>`, `<a href="/products/1">hiking boots</a>`,
		`<small>100 % your search &quot;boots&quot;</small>`, `<small>100 % your purchase socks</small>`,
	} {
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "<script>") {
			t.Errorf("%d: %s is missing in %s %s", code, want, out, errs)
		}
	}
	if code, out, errs := run(t, with(environment, "KEYFOLD_URL=http://127.0.0.1:1"), "", "php", "recommendations.php", "17"); code != 0 || !strings.Contains(out, "<h1>For you</h1>") || !strings.Contains(errs, "no answer") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if code, out, _ := run(t, environment, "", "php", "recommendations.php"); code != 0 || !strings.Contains(out, "?user=17") {
		t.Errorf("%d %s", code, fmt.Sprint(out))
	}
}
