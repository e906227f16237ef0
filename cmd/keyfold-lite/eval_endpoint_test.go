package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/service/profile/answers"
)

// The endpoint is asked what a log asks, in one command, and the same log gives the same report
// but for the times.
func TestEvalEndpoint(t *testing.T) {
	t.Parallel()
	events, products := sampleFiles(t, 400)
	args := []string{"eval-endpoint", "--short-half-life", "1m", "--events", events, "--products", products, "--ask", "mix=0", "--ask", "mix=0.5&popularity=0.2"}
	code, out, errs := lite(t, "", args...)
	for _, want := range []string{
		"a second vector with a half-life of 1m", "The endpoint mix=0 finds ", "item kNN of the last event", "answers by profiles",
		"were computed a second way, and the same but for ties", "Lines that are no event: 1; repeated ids: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("code %d: the report lacks %q:\n%s%s", code, want, out, errs)
		}
	}
	one, two := endpointReport(t, args), endpointReport(t, args)
	if one != two {
		t.Errorf("%s\n%s", one, two)
	}
	if code, _, errs := lite(t, "", "eval-endpoint", "--events", events, "--products", products, "--targets", "product_click", "--users", "1"); code != 0 {
		t.Errorf("clicks: code %d: %s", code, errs)
	}
}

// endpointReport returns a report without its times.
func endpointReport(t *testing.T, args []string) string {
	t.Helper()
	_, out, errs := lite(t, "", append(args, "-o", "json")...)
	var r answers.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Questions == 0 || len(r.Comparisons) != 2*len(answers.Compared)+1 {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	for _, row := range r.Rows {
		if row.Endpoint != nil {
			row.Endpoint.P50, row.Endpoint.P99 = 0, 0
		}
	}
	text, err := json.Marshal(r)
	must.OK(t, err)
	return string(text)
}

// Products that bring their vectors are ranked by those.
func TestEvalEndpointOfStoredVectors(t *testing.T) {
	t.Parallel()
	events, _ := sampleFiles(t, 60)
	products := filepath.Join(t.TempDir(), "products")
	var lines strings.Builder
	for id := range 300 {
		line, err := json.Marshal(map[string]any{"product_id": id + 1, "product_name": "p", "embedding": []float64{1, float64(id % 7), float64(id % 11)}})
		must.OK(t, err)
		lines.Write(append(line, '\n'))
	}
	write(t, products, lines.String())
	code, out, errs := lite(t, "", "eval-endpoint", "--events", events, "--products", products, "--vectors", "stored")
	if code != 0 || !strings.Contains(out, "the products' own of 3 components") || !strings.Contains(out, "computed a second way, and the same") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
}

func TestEvalEndpointFaults(t *testing.T) {
	t.Parallel()
	events, products := sampleFiles(t, 20)
	files := []string{"--events", events, "--products", products}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--events", events}, "--products"},
		{append(files, "--targets", "search"), "a search is of no product"},
		{append(files, "--ask", "k=3"), "cannot be asked with"},
		{append(files, "--ask", "mixed=1"), "is no parameter here"},
		{append(files, "--ask", "mix=0.5"), "mix_unavailable"},
		{append(files, "--k", "0"), "k is 0"},
		{append(files, "--age=-1s"), "must not be negative"},
		{append(files, "--vectors", "stored"), "no product has an embedding"},
	} {
		code, out, errs := lite(t, "", append([]string{"eval-endpoint"}, test.args...)...)
		if code == 0 || !strings.Contains(errs, test.want) {
			t.Errorf("%v: code %d, want %q in:\n%s%s", test.args, code, test.want, out, errs)
		}
	}
}
