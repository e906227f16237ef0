package main

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sqlfile"
	"keyfold/sink/sqlite"
	"keyfold/source/outbox"
)

// rebuild runs the command and returns its report.
func rebuild(t *testing.T, args ...string) (r rebuilt) {
	t.Helper()
	code, out, errs := lite(t, "", append([]string{"rebuild", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	return r
}

// Products that come after their events: one command folds what was skipped, from a
// file and from posts, and gives the profiles that the right order gives. A process
// that is killed before it has marked the events does it again.
//
// Promise(lite/products-later): Events that keyfold-lite skipped for missing products are stored; one
// command imports the products and makes these profiles anew.
func TestProductsAfterTheirEvents(t *testing.T) {
	t.Parallel()
	defer http.DefaultClient.CloseIdleConnections()
	lines := eventLines(t, 60)
	half := len(lines) / 2
	for _, history := range []string{"--history=mass", "--history=unit"} {
		t.Run(history, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			args := []string{small, history, "--data", data}
			s := fold(t, string(bytes.Join(lines[:half], []byte("\n"))), append(args, "--no-products", "--events=-")...)
			if s.SkippedBy["product_missing"] == 0 || s.Missing != s.Skipped {
				t.Fatalf("nothing was skipped: %+v", s)
			}
			url, stop := server(t, append(args, "--batch-window=50ms", "--batch-max-delay=100ms")...)
			for _, line := range lines[half:] {
				if code, answer := post(t, url, string(line)); code != http.StatusAccepted {
					t.Fatalf("%d %s", code, answer)
				}
			}
			if code, _, errs := lite(t, "", append([]string{"rebuild"}, args...)...); code != cli.ExitFailure || !strings.Contains(errs, "in use") {
				t.Errorf("beside a running one: %d %s", code, errs)
			}
			stop()
			first := rebuild(t, append(args, "--products", shopFile(t))...)
			if first.Folded < s.Missing || first.Users == 0 || first.Missing != 0 || first.Products != 240 {
				t.Errorf("%+v", first)
			}
			check := func() {
				t.Helper()
				want := inOrder(t, history, lines)
				got := exported(t, data)
				for user, p := range want {
					if q := got[user]; q == nil || q.EventCount != p.EventCount || floats.Distance(q.Vector, p.Vector, math.Inf(1)) > 1e-9 || math.Abs(q.Mass-p.Mass) > 1e-9 {
						t.Errorf("user %d: another profile than in the right order", user)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%d profiles, want %d", len(got), len(want))
				}
			}
			check()
			if again := rebuild(t, args...); again != (rebuilt{}) {
				t.Errorf("a second time: %+v", again)
			}
			skipAgain(t, args, data)
			if again := rebuild(t, args...); again.Folded == 0 || again.Missing != 0 {
				t.Errorf("after a kill: %+v", again)
			}
			check()
			if s := fold(t, string(bytes.Join(lines, []byte("\n"))), append(args, "--events=-")...); s.Folded != 0 || s.Skipped != 0 || s.Missing != 0 {
				t.Errorf("read again: %+v", s)
			}
			check()
		})
	}
}

// inOrder folds events whose products are there.
func inOrder(t *testing.T, history string, lines [][]byte) map[int32]*profile.Profile {
	t.Helper()
	data := filepath.Join(t.TempDir(), "ordered")
	fold(t, string(bytes.Join(lines, []byte("\n"))), small, history, "--data", data, "--products", shopFile(t), "--events=-")
	return exported(t, data)
}

// skipAgain marks the product events as a process leaves them that was killed
// between the profile's write and the mark.
func skipAgain(t *testing.T, args []string, data string) {
	t.Helper()
	change(t, data, profile.History(strings.TrimPrefix(args[1], "--history=")), "UPDATE inbox SET state = 3 WHERE event_type <> 'search'")
}

// change runs a statement on a folder's file.
func change(t *testing.T, data string, history profile.History, statement string) {
	t.Helper()
	file, err := sqlite.Open(filepath.Join(data, databaseName), sqlite.Settings{Dimensions: 64, History: history, Model: embedderModel})
	must.OK(t, err)
	err = file.Write(t.Context(), func(tx *sqlfile.Tx) error {
		_, err := tx.Exec(statement)
		return err
	})
	must.OK(t, err)
	must.OK(t, file.Close())
}

// An event whose product has a vector that cannot be used is not marked as folded.
func TestRebuildWithAnUnusableVector(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	args := []string{small, "--data", data}
	view := `{"user_id":1,"event_type":"product_view","product_id":1,"occurred_at":"2026-02-10T14:31:00Z"}`
	fold(t, view, append(args, "--no-products", "--events=-")...)
	if code, _, errs := lite(t, "", append([]string{"products", "import", "--embed", shopFile(t)}, args...)...); code != 0 {
		t.Fatal(errs)
	}
	change(t, data, profile.Mass, "UPDATE product_embeddings SET embedding = zeroblob(length(embedding))")
	code, _, errs := lite(t, "", append([]string{"rebuild"}, args...)...)
	if code != cli.ExitFailure || !strings.Contains(errs, "user 1: the profile stays as it is: the vectors of 1 event cannot be used") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if r := rebuild(t, append(args, "--products", shopFile(t))...); r.Folded != 1 || r.Users != 1 {
		t.Errorf("after the product was imported again: %+v", r)
	}
}

// A profile whose events are no longer stored with their texts stays as it is, and
// others are made anew; events of products that are still unknown stay skipped.
//
// Promise(lite/products-later)
func TestRebuildWithoutTheTexts(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	data := filepath.Join(t.TempDir(), "data")
	args := []string{small, "--data", data}
	url, stop := server(t, args...)
	if code, answer := post(t, url, string(searches(t, 1, "m")[0].Body)); code != http.StatusAccepted {
		t.Fatal(answer)
	}
	stop()
	if deleted, err := stored(t, data).Prune(t.Context(), engine.Now()+engine.Millis(1000), outbox.CleanupOptions{}); err != nil || deleted != 1 {
		t.Fatalf("%d pruned, %v", deleted, err)
	}
	view := func(user, product string) string {
		return `{"user_id":` + user + `,"event_type":"product_view","product_id":` + product + `,"occurred_at":"2026-02-10T14:31:00Z"}` + "\n"
	}
	fold(t, view("1", "1")+view("2", "1")+view("2", "999999"), append(args, "--no-products", "--events=-")...)
	before := exported(t, data)[1]
	if _, _, errs := lite(t, "", "rebuild", "--data", data+"2"); !strings.Contains(errs, "run keyfold-lite first") {
		t.Errorf("a mistyped folder: %s", errs)
	}
	_, out, _ := lite(t, "", append([]string{"products", "import", "--embed", shopFile(t)}, args...)...)
	if !strings.Contains(out, "3 stored events skipped earlier") || !strings.Contains(out, " rebuild\n") {
		t.Errorf("the import says: %s", out)
	}
	code, out, errs := lite(t, "", append([]string{"rebuild"}, args...)...)
	if code != cli.ExitFailure || !strings.Contains(errs, "user 1: the profile stays as it is: the text of event m-0 was deleted") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"1 skipped event folded after all; 1 profile made anew", "1 event left out: the product is still unknown"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in: %s", want, out)
		}
	}
	after := exported(t, data)
	if after[1].EventCount != before.EventCount || after[1].Version != before.Version || after[2].EventCount != 1 {
		t.Errorf("%+v", after)
	}
}
