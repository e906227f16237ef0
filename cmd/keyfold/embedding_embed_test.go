package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
	"keyfold/source/vector/openai"
)

// embedded is what the command shows of one phrase.
type embedded struct {
	Normal     string  `json:"normal_form"`
	Model      string  `json:"model"`
	Dimensions int     `json:"dimensions"`
	Norm       float64 `json:"norm"`
	From       string  `json:"from"`
	Millis     float64 `json:"milliseconds"`
	Nearest    []struct {
		ProductID   int32   `json:"product_id"`
		ProductName string  `json:"product_name"`
		Cosine      float64 `json:"cosine"`
	} `json:"nearest_products"`
}

// `keyfold embed` shows what a phrase becomes: the second time out of Redis, with
// the same vector's neighbours.
func TestEmbedShowsTheWay(t *testing.T) {
	a := newAPIStack(t).withRedis(t)
	name := a.products[10].Name
	var said string
	shown := func(args ...string) (all []embedded) {
		t.Helper()
		code, out, errs := a.run(t, "", append([]string{"embed", "-o", "json"}, args...)...)
		if said = errs; code != 0 {
			t.Fatalf("%d: %s", code, errs)
		}
		decode := json.NewDecoder(strings.NewReader(out))
		for decode.More() {
			var e embedded
			must.OK(t, decode.Decode(&e))
			all = append(all, e)
		}
		return all
	}
	first := shown("  "+name+"  ", "garden hose")
	var again []embedded
	eventually(t, "the phrases come out of Redis", func() error { // which is bypassed when it is slow
		before := a.api.Counts()
		again = shown("  "+name+"  ", "garden hose")
		if asked, _ := a.asked(before); asked != 0 || len(again) != 2 || said != "" {
			return fmt.Errorf("%d requests for %d phrases: %s", asked, len(again), said)
		}
		return nil
	})
	if len(first) != 2 {
		t.Fatalf("%d phrases", len(first))
	}
	for i, e := range first {
		f := again[i]
		if e.From != "api" || f.From != "redis" || e.Model != openai.DefaultModel || e.Dimensions != dimensions || math.Abs(e.Norm-1) > 1e-12 || e.Millis <= 0 {
			t.Errorf("%+v, then %+v", e, f)
		}
		if len(e.Nearest) != 5 || len(f.Nearest) != 5 || e.Nearest[0] != f.Nearest[0] {
			t.Errorf("nearest products %+v, then %+v", e.Nearest, f.Nearest)
		}
	}
	if e := first[0]; e.Normal != name || e.Nearest[0].ProductName == "" || e.Nearest[0].Cosine < e.Nearest[4].Cosine {
		t.Errorf("%+v", e)
	}

	eventually(t, "a phrase is shown as text", func() error {
		code, out, errs := a.run(t, "", "embed", "garden hose", "--near=2")
		if code != 0 || strings.Count(out, "product ") != 2 {
			return fmt.Errorf("%d %s %s", code, out, errs)
		}
		for _, want := range []string{`"garden hose"`, openai.DefaultModel, "64 dimensions", "norm 1.000000", "from redis in "} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("%q is missing in %s", want, out)
			}
		}
		return nil
	})
	a.redis.Kill()
	code, out, errs := a.run(t, "", "embed", "garden hose", "--near=0")
	if code != 0 || !strings.Contains(out, "from api") || !strings.Contains(errs, "Redis is bypassed") {
		t.Errorf("without Redis: %d %s %s", code, out, errs)
	}
	code, out, _ = a.run(t, "", "embed", "garden hose", "--near=0", "--embedder=hash", "--redis-url=")
	if code != 0 || !strings.Contains(out, "from offline") || !strings.Contains(out, vector.HashModel) {
		t.Errorf("offline: %d %s", code, out)
	}
	code, out, errs = a.run(t, "", "embed", "garden hose", "--mongodb-uri=mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200", "--redis-url=")
	if code != 0 || !strings.Contains(out, "from api") || !strings.Contains(errs, "no nearest products") {
		t.Errorf("without a store: %d %s %s", code, out, errs)
	}
}

// A wrong setting is named with its cure, at once, and never the key.
func TestEmbedNamesTheCure(t *testing.T) {
	a := newAPIStack(t)
	base := a.api.URL()
	for _, tc := range []struct {
		name string
		args []string
		want []string
		code int
	}{
		{"wrong key", []string{"--openai-api-key=" + apiKey + "x"}, []string{"401", "OPENAI_API_KEY"}, 1},
		{"no key", []string{"--openai-api-key="}, []string{"401", "OPENAI_API_KEY"}, 1},
		{"wrong path", []string{"--openai-base-url=" + strings.TrimSuffix(base, "/v1")}, []string{"404", "OPENAI_BASE_URL", "/v1"}, 1},
		{"no server there", []string{"--openai-base-url=http://127.0.0.1:1/v1"}, []string{"127.0.0.1:1", "refused"}, 1},
		{"no address", []string{"--openai-base-url=127.0.0.1:80"}, []string{"OPENAI_BASE_URL"}, 2},
		{"wrong model", []string{"--embedding-model=text-embedding-9"}, []string{"404", "text-embedding-9"}, 1},
		{"wrong dimensions", []string{"--dimensions=32", "--openai-omit-dimensions"}, []string{"EMBEDDING_DIMENSIONS"}, 1},
		{"blank", []string{" \t "}, []string{"blank"}, 2},
	} {
		code, out, errs := a.run(t, "", append([]string{"embed", "--near=0"}, append(tc.args, "garden hose")...)...)
		if code != tc.code || out != "" {
			t.Errorf("%s: %d %s %s", tc.name, code, out, errs)
		}
		for _, want := range tc.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q is missing in %s", tc.name, want, errs)
			}
		}
	}
}
