package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sqlite"
	"keyfold/source/sample"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main() // the test binary as the program: see crash_test.go
		return
	}
	goleak.VerifyTestMain(m)
}

// lite runs the program in this process.
func lite(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, cli.Streams{Stdin: strings.NewReader(stdin), Stdout: &o, Stderr: &e})
	return code, o.String(), e.String()
}

// fold runs a job to its end and returns the report.
func fold(t *testing.T, stdin string, args ...string) summary {
	t.Helper()
	code, out, errs := lite(t, stdin, append(args, "--exit", "-o", "json")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var s summary
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if sum := s.Folded + s.Duplicate + s.Skipped + s.Dead + s.Pending; sum != int64(s.Events)+s.Recovered {
		t.Fatalf("%d events accounted for of %d: %s", sum, s.Events, out)
	}
	return s
}

// shopFile writes the sample shop's products and returns the file's name.
func shopFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "products.ndjson")
	f, err := os.Create(path)
	must.OK(t, err)
	defer f.Close()
	for _, p := range sample.Products() {
		fmt.Fprintf(f, `{"product_id":%d,"product_name":%q,"category":%q}`+"\n", p.ID, p.Name, p.Category)
	}
	return path
}

func eventLines(t *testing.T, sessions int) [][]byte {
	t.Helper()
	c := sample.DefaultConfig(sessions)
	c.End = time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)
	return sample.Events(c)
}

const small = "--dimensions=64" // vectors small enough for the race detector

func TestFileTwice(t *testing.T) {
	t.Parallel()
	lines := eventLines(t, 80)
	plain := bytes.Join(lines, []byte("\n"))
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	w.Write(plain)
	w.Close()
	path := filepath.Join(t.TempDir(), "events.ndjson.gz")
	must.OK(t, os.WriteFile(path, zipped.Bytes(), 0o600))
	data := filepath.Join(t.TempDir(), "data")
	args := []string{small, "--data", data, "--products", shopFile(t), "--events", path}
	first := fold(t, "", args...)
	if first.Events != len(lines) || first.Folded == 0 || first.Dead+first.Skipped+first.Pending != 0 || first.Writes >= first.Folded {
		t.Errorf("%+v", first)
	}
	second := fold(t, "", args...)
	if second.Folded != 0 || second.Writes != 0 || second.Duplicate != int64(len(lines)) || second.Users != first.Users {
		t.Errorf("a second run folded: %+v", second)
	}
	// Standard input gives the same groups.
	third := fold(t, string(plain), small, "--data", filepath.Join(t.TempDir(), "other"), "--products", shopFile(t), "--events", "-", "--shards=5")
	if third.Batches != first.Batches || third.Writes != first.Writes || third.Folded != first.Folded {
		t.Errorf("groups differ: %+v, before %+v", third, first)
	}
}

func TestEveryEventIsAccountedFor(t *testing.T) {
	event := func(s string) string { return s + "\n" }
	in := event(`{"user_id":1,"event_type":"product_view","product_id":1,"occurred_at":"2026-02-10T14:30:00Z","message_id":"a"}`) +
		event(`{"user_id":1,"event_type":"product_view","product_id":1,"occurred_at":"2026-02-10T14:30:00Z","message_id":"a"}`) +
		event(`{"user_id":1,"event_type":"product_view","product_id":999999,"occurred_at":"2026-02-10T14:30:01Z"}`) +
		event(`{"user_id":1,"event_type":"search","search_phrase":null,"occurred_at":"2026-02-10T14:30:02Z"}`) +
		event(`{"user_id":1,"event_type":"search","search_phrase":null,"occurred_at":"2026-02-10T14:30:02Z"}`) +
		event(`not json`) + "\n\n" +
		event(`{"user_id":2,"event_type":"search","search_phrase":"`+strings.Repeat("x", 70_000)+`"}`) +
		`{"user_id":2,"event_type":"search","search_phrase":"garden hose","occurred_at":"2026-02-10T14:30:03Z"}`
	data := filepath.Join(t.TempDir(), "data")
	s := fold(t, in, small, "--data", data, "--products", shopFile(t), "--events", "-")
	if s.Events != 8 || s.Folded != 2 || s.Duplicate != 1 || s.Skipped != 1 || s.Dead != 4 || s.Users != 2 {
		t.Errorf("%+v", s)
	}
	if s.SkippedBy["product_missing"] != 1 || s.DeadBy["search_without_phrase"] != 2 || s.DeadBy["malformed_json"] != 1 || s.DeadBy["body_too_large"] != 1 {
		t.Errorf("reasons: skipped %v, dead %v", s.SkippedBy, s.DeadBy)
	}

	code, out, _ := lite(t, "", "user", "show", "2", "--data", data)
	if code != 0 || !strings.Contains(out, `"garden hose"`) || !strings.Contains(out, "garden hose  (Home/Garden)") {
		t.Errorf("user show: %d\n%s", code, out)
	}
	var shown struct {
		UserID  int32  `json:"user_id"`
		History string `json:"history"`
		Near    []struct {
			Name   string  `json:"product_name"`
			Cosine float64 `json:"cosine"`
		} `json:"nearest_products"`
		Events []struct {
			State string `json:"state"`
		} `json:"last_events"`
	}
	_, out, _ = lite(t, "", "user", "show", "2", "--data", data, "-o", "json")
	must.OK(t, json.Unmarshal([]byte(out), &shown))
	if shown.UserID != 2 || shown.History != "mass" || len(shown.Near) != 10 || !strings.Contains(shown.Near[0].Name, "garden hose") ||
		len(shown.Events) != 1 || shown.Events[0].State != "folded" {
		t.Errorf("%+v", shown)
	}
}

func TestExport(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := fold(t, "", small, "--data", data, "--sample", "50")
	file := filepath.Join(t.TempDir(), "profiles.ndjson")
	if code, _, errs := lite(t, "", "user", "export", file, "--data", data); code != 0 {
		t.Fatal(errs)
	}
	written, err := os.ReadFile(file)
	must.OK(t, err)
	_, printed, _ := lite(t, "", "user", "export", "--data", data)
	if printed != string(written) {
		t.Error("the file and standard output differ")
	}
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	var events int64
	for _, line := range lines {
		var d map[string]any
		must.OK(t, json.Unmarshal([]byte(line), &d))
		for _, name := range []string{"user_id", "embedding", "dimension_count", "last_updated", "event_count", "last_event_type", "created_at", "updated_at", "version", "mass", "history", "embedding_model"} {
			if _, ok := d[name]; !ok {
				t.Fatalf("%s is missing in %s", name, line)
			}
		}
		events += int64(d["event_count"].(float64))
	}
	if int64(len(lines)) != s.Users || events != s.Folded {
		t.Errorf("%d profiles with %d events, want %d with %d", len(lines), events, s.Users, s.Folded)
	}
}

// A cut file is folded as far as it goes, and says so; with the whole one the
// job goes on.
func TestCutFile(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	lines := eventLines(t, 120)
	w.Write(bytes.Join(lines, []byte("\n")))
	w.Close()
	path, data := filepath.Join(t.TempDir(), "events.gz"), filepath.Join(t.TempDir(), "data")
	must.OK(t, os.WriteFile(path, zipped.Bytes()[:zipped.Len()/2], 0o600))
	args := []string{small, "--data", data, "--products", shopFile(t), "--events", path}
	if code, _, errs := lite(t, "", append(args, "--exit")...); code != 1 || !strings.Contains(errs, "cut off") {
		t.Fatalf("%d %s", code, errs)
	}
	must.OK(t, os.WriteFile(path, zipped.Bytes(), 0o600))
	if s := fold(t, "", args...); s.Folded == 0 || s.Duplicate < 100 {
		t.Errorf("%+v", s)
	}
	equalsOracle(t, data, lines)
}

// Without arguments: a sample, a summary for a person, an example, what next.
func TestDemo(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("EMBEDDING_DIMENSIONS", "64")
	code, out, errs := lite(t, "")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{"events became", "folded", "writes", "saved", "recommended to user", "Try next:", "user show"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

func TestProductsImport(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	code, _, errs := lite(t, "", "products", "import", shopFile(t), "--data", data)
	if code != 1 || !strings.Contains(errs, "--embed") {
		t.Errorf("products without vectors: %d %s", code, errs)
	}
	code, out, errs := lite(t, "", "products", "import", shopFile(t), "--embed", "--data", data)
	if code != 0 || !strings.Contains(out, "240 products") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	code, _, errs = lite(t, `{"product_id":1,"embedding":[1,2,3]}`, "products", "import", "-", "--data", data)
	if code != 1 || !strings.Contains(errs, "product 1") || !strings.Contains(errs, "3 components, expected 1536") {
		t.Errorf("%d %s", code, errs)
	}
}

// Promise(event/configuration)
func TestMistakes(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	fold(t, "", small, "--data", data, "--sample", "5")
	for _, tc := range []struct {
		name string
		code int
		args []string
		want []string
	}{
		{"unknown flag", 2, []string{"--evnts", "x"}, []string{"--evnts", "--help"}},
		{"no such file", 1, []string{"--events", "nowhere.ndjson", "--data", data + "2"}, []string{"nowhere.ndjson"}},
		{"two inputs", 2, []string{"--events", "-", "--sample", "3", "--data", data}, []string{"--events and --sample"}},
		{"no products", 2, []string{"--events", "-", "--exit", "--data", data + "4"}, []string{"--products FILE"}},
		{"bad settings", 2, []string{"--history", "mas", "--batch-window", "soon", "--data", data}, []string{"EMBEDDING_BATCH_WINDOW"}},
		{"several settings", 2, []string{"--log-level=loud", "--log-format=xml", "--dimensions=many"}, []string{"LOG_LEVEL", "LOG_FORMAT", "EMBEDDING_DIMENSIONS"}},
		{"other history", 1, []string{small, "--history", "unit", "--sample", "5", "--exit", "--data", data}, []string{"EMBEDDING_HISTORY=mass"}},
		{"other dimensions", 1, []string{"--sample", "5", "--exit", "--data", data}, []string{"EMBEDDING_DIMENSIONS=64"}},
		{"unknown user", 1, []string{"user", "show", "2000000000", "--data", data}, []string{"no profile"}},
		{"no data", 1, []string{"user", "show", "1", "--data", data + "3"}, []string{"run keyfold-lite first"}},
		{"beyond loopback", 2, []string{"serve", small, "--http-addr", "0.0.0.0:0", "--data", data}, []string{"loopback"}},
	} {
		code, _, errs := lite(t, "", tc.args...)
		if code != tc.code {
			t.Errorf("%s: exit code %d, want %d: %s", tc.name, code, tc.code, errs)
		}
		for _, want := range tc.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %q is missing in: %s", tc.name, want, errs)
			}
		}
	}
	if _, err := os.Stat(data + "2"); err == nil {
		t.Error("a mistyped input left a data folder behind")
	}
}

// server runs `serve` until stopped and returns its URL.
func server(t *testing.T, args ...string) (url string, stop func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	errs, out := &logtest.Buffer{}, &logtest.Buffer{}
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, append([]string{"serve", "--http-addr", "127.0.0.1:0", "-o", "json"}, args...), cli.Streams{Stdin: strings.NewReader(""), Stdout: out, Stderr: errs})
	}()
	stop = sync.OnceValue(func() string {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("serve ended with %d: %s", code, errs)
		}
		return out.String()
	})
	t.Cleanup(func() { stop() })
	listening := regexp.MustCompile(`http://[0-9.]+:[0-9]+`)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if url := listening.FindString(errs.String()); url != "" {
			return url, stop
		}
	}
	t.Fatalf("it does not listen: %s", errs)
	return "", nil
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url+"/v1/events", "application/json", strings.NewReader(body))
	must.OK(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return resp.StatusCode, string(answer)
}

// A post is answered once it is durable, long before its window closes; the
// window is written when the program is told to stop.
func TestServe(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	data := filepath.Join(t.TempDir(), "data")
	url, stop := server(t, small, "--data", data, "--products", shopFile(t), "--batch-window=1h", "--batch-max-delay=1h")
	now := time.Now().UTC().Format(time.RFC3339)
	code, answer := post(t, url, `[{"user_id":7,"event_type":"search","search_phrase":"coffee grinder","occurred_at":"`+now+`","message_id":"m1"},
		{"user_id":7,"event_type":"product_view","product_id":3,"occurred_at":"`+now+`","message_id":"m2"}]`)
	if code != http.StatusAccepted || !strings.Contains(answer, `"accepted":2`) {
		t.Fatalf("%d %s", code, answer)
	}
	code, answer = post(t, url, `{"user_id":7,"event_type":"product_view","product_id":3,"occurred_at":"`+now+`","message_id":"m2"}`)
	if code != http.StatusAccepted || !strings.Contains(answer, `"duplicate":1`) {
		t.Fatalf("%d %s", code, answer)
	}
	if code, answer = post(t, url, `{"user_id":"7"}`); code != http.StatusBadRequest || !strings.Contains(answer, "user_id") {
		t.Fatalf("%d %s", code, answer)
	}
	code, _, errs := lite(t, "", small, "--sample", "5", "--exit", "--data", data)
	if code != 1 || !strings.Contains(errs, "in use") {
		t.Errorf("a second program on the folder: %d %s", code, errs)
	}
	var s summary
	must.OK(t, json.Unmarshal([]byte(stop()), &s))
	if s.Events != 3 || s.Folded != 2 || s.Duplicate != 1 || s.Writes != 1 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
}

// An import that is started again, as after a kill, writes what is missing or has
// changed, and nothing else.
func TestProductsImportGoesOn(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	file, err := os.ReadFile(shopFile(t))
	must.OK(t, err)
	lines := strings.SplitAfter(strings.TrimSpace(string(file)), "\n")
	load := func(lines []string) {
		t.Helper()
		code, out, errs := lite(t, strings.Join(lines, ""), "products", "import", "-", "--embed", "--data", data)
		if want := fmt.Sprint(len(lines), " products"); code != 0 || !strings.Contains(out, want) {
			t.Fatalf("%d %s %s", code, out, errs)
		}
	}
	written := func() (at map[int32]int64) {
		t.Helper()
		reader, err := sqlite.OpenReader(filepath.Join(data, databaseName))
		must.OK(t, err)
		defer reader.Close()
		rows, err := reader.QueryContext(t.Context(), "SELECT product_id, updated_at FROM product_embeddings")
		must.OK(t, err)
		defer rows.Close()
		at = map[int32]int64{}
		for rows.Next() {
			var id int32
			var updated int64
			must.OK(t, rows.Scan(&id, &updated))
			at[id] = updated
		}
		return at
	}
	load(lines[:100]) // as far as the killed one came
	before := written()
	for began := engine.Now(); engine.Now() == began; {
		time.Sleep(time.Millisecond) // what is written again shows
	}
	changed := slices.Clone(lines)
	changed[0] = strings.Replace(changed[0], `"product_name":"`, `"product_name":"New `, 1)
	load(changed)
	after := written()
	again := 0
	for id, at := range before {
		if after[id] != at {
			again++
		}
	}
	if len(after) != len(lines) || again != 1 {
		t.Errorf("%d products are there, want %d; %d of the first hundred were written again, want the changed one", len(after), len(lines), again)
	}
}

// In `unit`, ordered input gives one profile however batches cut it, also within
// one instant.
//
// Promise(event/unit-order): With the history `unit`, input ordered by (occurred_at, message_id) gives
// the same profile whatever the batches; other input may not.
func TestUnitOfOneInstant(t *testing.T) {
	t.Parallel()
	products := shopFile(t)
	var lines []string
	for n := range 542 {
		lines = append(lines, fmt.Sprintf(`{"user_id":1,"event_type":"product_view","product_id":%d,"occurred_at":"2026-02-10T14:30:00Z","message_id":"id-%03d"}`, 1+n%200, n))
	}
	folded := func(size string) *profile.Profile {
		data := filepath.Join(t.TempDir(), "data")
		s := fold(t, strings.Join(lines, "\n"), small, "--history=unit", size, "--data", data, "--products", products, "--events", "-")
		if s.Folded != int64(len(lines)) {
			t.Fatalf("%s: %+v", size, s)
		}
		return exported(t, data)[1]
	}
	want := folded("--batch-max-size=1")
	for _, size := range []string{"--batch-max-size=500", "--batch-max-size=7"} {
		if got := folded(size); floats.Distance(got.Vector, want.Vector, math.Inf(1)) > 1e-9 {
			t.Errorf("%s: another profile than event by event", size)
		}
	}
}
