package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/service/profile/evaluation"
	"keyfold/source/sample"
)

// sampleFiles writes the sample shop's events and products as a user would have them.
func sampleFiles(t *testing.T, sessions int) (events, products string) {
	t.Helper()
	folder := t.TempDir()
	events, products = filepath.Join(folder, "events.ndjson"), filepath.Join(folder, "products.ndjson")
	var lines bytes.Buffer
	for _, p := range sample.Products() {
		line, err := json.Marshal(map[string]any{"product_id": p.ID, "product_name": p.Name, "category": p.Category})
		must.OK(t, err)
		lines.Write(append(line, '\n'))
	}
	write(t, products, lines.String())
	write(t, events, string(bytes.Join(sampleEvents(sessions), []byte("\n")))+"\n{\"broken\":\n")
	return events, products
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestEvalAnswersInOneCommand(t *testing.T) {
	t.Parallel()
	events, products := sampleFiles(t, 400)
	page := filepath.Join(t.TempDir(), "eval.html")
	args := []string{"eval", "--events", events, "--products", products, "--half-lives", "last,1m,1d,never"}
	code, out, errs := lite(t, "", append(args, "--html", page)...)
	for _, want := range []string{"vectors keyfold-hash-v1 (lexical", "Popularity of the last days finds", "The same profile made each night finds", "Item kNN, which takes no vectors, finds", "nightly", "0.5 x 1m + 0.5 x 30.1d", "computed a second time", "Lines that are no event: 1; repeated ids: "} {
		if !strings.Contains(out, want) {
			t.Errorf("code %d: the report lacks %q:\n%s%s", code, want, out, errs)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil || len(html) > 300<<10 || strings.Contains(string(html), "http://") || strings.Contains(string(html), "https://") || strings.Count(string(html), "<svg") < 4 {
		t.Errorf("the page: %v, %d bytes", err, len(html))
	}
	_, one, _ := lite(t, "", append(args, "-o", "json")...)
	_, two, _ := lite(t, "", append(args, "-o", "json")...)
	var report evaluation.Report
	if err := json.Unmarshal([]byte(one), &report); err != nil || one != two || report.Log.Refused != 1 || report.Questions == 0 {
		t.Errorf("json: %v, equal %v, %+v", err, one == two, report.Log)
	}
	if code, _, errs := lite(t, "", append(args, "--strict", "--no-tables")...); code != 1 || !strings.Contains(errs, "no event") {
		t.Errorf("--strict: code %d, %s", code, errs)
	}
}

// Faults of flags and files are named with their cure.
func TestEvalFaults(t *testing.T) {
	t.Parallel()
	events, products := sampleFiles(t, 20)
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, "")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--events", events}, "--products"},
		{[]string{"--events", events, "--products", empty}, "has no product"},
		{[]string{"--events", empty, "--products", products}, "the log has no event"},
		{[]string{"--events", events, "--products", products, "--warm-up", "1.2"}, "above 0 and below 1"},
		{[]string{"--events", events, "--products", products, "--half-lives", "soon"}, "half-lives"},
		{[]string{"--events", events, "--products", products, "--half-lives", "0s"}, "takes only the newest events"},
		{[]string{"--events", events, "--products", events}, "product_id is null"},
		{[]string{"--events", "absent", "--products", products}, "absent"},
		{[]string{"--events", events, "--products", products, "--vectors", "stored"}, "no product has an embedding"},
		{[]string{"--events", events, "--products", "."}, ". is a folder: name a file"},
		{[]string{"--events", events, "--products", products, "--html", filepath.Join(empty, "x.html")}, "--html"},
		{[]string{"--events", events, "--products", products, "--html", t.TempDir()}, "is a folder, expected a file"},
		{[]string{"--events", events, "--products", products, "--targets", "search"}, "a search is of no product"},
		{[]string{"--events", events, "--products", products, "--horizon", "100d"}, "no 100d follow the warm-up"},
	} {
		code, out, errs := lite(t, "", append([]string{"eval"}, test.args...)...)
		if code == 0 || !strings.Contains(errs, test.want) {
			t.Errorf("%v: code %d, want %q in:\n%s%s", test.args, code, test.want, out, errs)
		}
	}
}

// Vectors of two lengths are no more comparable than those of two models; products that have
// none are counted.
func TestEvalOfStoredVectors(t *testing.T) {
	t.Parallel()
	events, _ := sampleFiles(t, 50)
	some := func(lengths ...int) string {
		var lines strings.Builder
		for i, p := range sample.Products() {
			line := fmt.Sprintf(`{"product_id":%d,"product_name":"p"`, p.ID)
			if n := lengths[i%len(lengths)]; n > 0 {
				line += `,"embedding":[` + fmt.Sprint(i+1) + strings.Repeat(",1", n-1) + `]`
			}
			lines.WriteString(line + "}\n")
		}
		file := filepath.Join(t.TempDir(), "products")
		write(t, file, lines.String())
		return file
	}
	if code, _, errs := lite(t, "", "eval", "--events", events, "--products", some(3, 4), "--vectors", "stored"); code != 1 || !strings.Contains(errs, "has a vector of 4 components") {
		t.Errorf("two lengths: code %d: %s", code, errs)
	}
	code, out, errs := lite(t, "", "eval", "--events", events, "--products", some(3, 0), "--vectors", "stored", "--no-tables")
	if code != 0 || !strings.Contains(out, "the products' own of 3 components; ") || !strings.Contains(out, "have none") {
		t.Errorf("half of them without: code %d: %s%s", code, out, errs)
	}
	// Item kNN has no second vector to show.
	code, out, errs = lite(t, "", "eval", "--events", events, "--products", some(3), "--vectors", "knn", "-o", "json")
	if code != 0 || strings.Contains(out, "with_second_vector") {
		t.Errorf("knn: code %d: %s", code, errs)
	}
}

// Products of several models cannot be compared.
func TestEvalRefusesTwoModels(t *testing.T) {
	t.Parallel()
	events, _ := sampleFiles(t, 20)
	products := filepath.Join(t.TempDir(), "products")
	write(t, products, `{"product_id":1,"product_name":"a","embedding":[1,0],"embedding_model":"one"}
{"product_id":2,"product_name":"b","embedding":[0,1],"embedding_model":"two"}
`)
	code, _, errs := lite(t, "", "eval", "--events", events, "--products", products, "--vectors", "stored")
	if code != 1 || !strings.Contains(errs, "two models cannot be compared") {
		t.Errorf("code %d: %s", code, errs)
	}
}
