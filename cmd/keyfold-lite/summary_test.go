package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
)

// background runs the program until stop is called, and waits for what it says on
// standard error.
func background(t *testing.T, args ...string) (out, errs *logtest.Buffer, until func(pattern string) string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs = &logtest.Buffer{}, &logtest.Buffer{}
	done := make(chan int, 1)
	go func() { done <- run(ctx, args, cli.Streams{Stdin: strings.NewReader(""), Stdout: out, Stderr: errs}) }()
	until = func(pattern string) string {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if found := regexp.MustCompile(pattern).FindString(errs.String()); found != "" {
				return found
			}
		}
		t.Fatalf("it does not say %s: %s", pattern, errs)
		return ""
	}
	return out, errs, until, func() {
		t.Helper()
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("it ended with %d: %s", code, errs)
		}
	}
}

// The summary of an input comes before the program serves; what is posted then has
// one of its own.
func TestSummaryBeforeServing(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	args := []string{small, "--sample=20", "--http-addr=127.0.0.1:0", "--data"}
	out, errs, until, stop := background(t, append(args, filepath.Join(t.TempDir(), "data"))...)
	url := until(`http://127.0.0.1:[0-9]+`)
	if said := errs.String(); !strings.HasPrefix(said, "generating a small shop with 20 sessions") {
		t.Errorf("it begins with: %s", said)
	}
	folded := out.String()
	for _, want := range []string{"events became", "folded", "recommended to user", url + "/v1/events"} {
		if !strings.Contains(folded, want) {
			t.Errorf("%q is missing before it serves: %s", want, folded)
		}
	}
	if strings.Contains(folded, " serve ") {
		t.Errorf("it advises to serve, and is about to: %s", folded)
	}
	if code, answer := post(t, url, string(searches(t, 1, "m")[0].Body)); code != http.StatusAccepted {
		t.Fatal(answer)
	}
	stop()
	if rest, _ := strings.CutPrefix(out.String(), folded); !strings.Contains(rest, "1 event in, 1 folded, 1 profile written") || strings.Count(rest, "\n") != 1 {
		t.Errorf("of the posts it says: %s", rest)
	}

	out, _, until, stop = background(t, append(args, filepath.Join(t.TempDir(), "other"), "-o", "json")...)
	url = until(`http://127.0.0.1:[0-9]+`)
	if code, answer := post(t, url, string(searches(t, 1, "m")[0].Body)); code != http.StatusAccepted {
		t.Fatal(answer)
	}
	stop()
	var before, after summary
	reports := json.NewDecoder(strings.NewReader(out.String()))
	must.OK(t, reports.Decode(&before))
	must.OK(t, reports.Decode(&after))
	if before.Events < 100 || before.Folded < 100 || after.Events != 1 || after.Folded != 1 || after.Writes != 1 || after.Duplicate != 0 {
		t.Errorf("%s", out)
	}
}

func TestServingNothingSaysNothing(t *testing.T) {
	out, _, until, stop := background(t, "serve", small, "--http-addr=127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	until("listening on")
	stop()
	if out.String() != "" {
		t.Errorf("%s", out)
	}
}

// A second run of the same input says that there was nothing to do.
func TestSummaryOfASecondRun(t *testing.T) {
	args := []string{small, "--sample=10", "--exit", "--data", filepath.Join(t.TempDir(), "data")}
	const nothing = "were read by an earlier run: nothing to do"
	if _, out, _ := lite(t, "", args...); strings.Contains(out, nothing) {
		t.Errorf("the first run: %s", out)
	}
	if _, out, _ := lite(t, "", args...); !strings.HasPrefix(out, "all ") || !strings.Contains(out, nothing) {
		t.Errorf("the second run: %s", out)
	}
	args, event := []string{small, "--no-products", "--events=-", "--exit", "--data", filepath.Join(t.TempDir(), "other")}, string(searches(t, 1, "m")[0].Body)
	lines := event + "\nno event"
	if _, out, _ := lite(t, lines, args...); !strings.Contains(out, "became 1 profile") {
		t.Errorf("the first run of another: %s", out)
	}
	if _, out, _ := lite(t, lines, args...); !strings.HasPrefix(out, "all 2 events but the dead ones "+nothing) {
		t.Errorf("its second run: %s", out)
	}
	if _, out, _ := lite(t, event, args...); !strings.HasPrefix(out, "the event was read by an earlier run") || strings.Contains(out, " \n") {
		t.Errorf("a run of one event: %s", out)
	}
}

func TestTryNextNamesWhatIsConfigured(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	_, out, _ := lite(t, "", small, "--sample=5", "--exit", "--data", data, "--http-addr", "127.0.0.1:7999")
	for _, want := range []string{"--data " + data + " --dimensions 64 user show", "serve --http-addr 127.0.0.1:7999", "http://127.0.0.1:7999/v1/events"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in: %s", want, out)
		}
	}
}

// A line says at intervals what happened since the last one, where anything did.
func TestActivity(t *testing.T) {
	n := testNode(t.Context(), t)
	said := &logtest.Buffer{}
	n.Stderr = said
	n.serving(t)
	tick, done, ended := make(chan time.Time), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		n.tell(tick, done)
	}()
	tick <- time.Now()
	if said.String() != "" {
		t.Errorf("nothing happened: %s", said)
	}
	if _, err := n.intake.store.Add(t.Context(), searches(t, 1, "m")); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(said.String(), "1 profile written\n") {
		tick <- time.Now()
		tick <- time.Now() // the first one's line is written
		if !strings.HasPrefix(said.String(), "1 event in") {
			t.Fatalf("it says: %s", said)
		}
	}
	before := said.String()
	tick <- time.Now()
	tick <- time.Now()
	if said.String() != before {
		t.Errorf("nothing more happened: %s", said)
	}
	close(done)
	<-ended
	if err := n.close(); err != nil {
		t.Error(err)
	}
}

// The figures of a run with skipped events count those that came to the windows.
func TestEventsOfABatch(t *testing.T) {
	data, event := filepath.Join(t.TempDir(), "data"), ""
	for second := range 4 {
		event += fmt.Sprintf(`{"user_id":1,"event_type":"product_view","product_id":1,"occurred_at":"2026-02-10T14:30:%02dZ"}`+"\n", second)
	}
	_, out, _ := lite(t, event, small, "--no-products", "--events=-", "--exit", "--data", data)
	if !strings.Contains(out, "4.0 events a batch") || !strings.Contains(out, "became 0 profiles") {
		t.Errorf("%s", out)
	}
}
