package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
)

// A user without a profile: why there is none.
func TestShowWithoutAProfile(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	data := filepath.Join(t.TempDir(), "data")
	show := func(id string) string {
		t.Helper()
		code, _, errs := lite(t, "", "user", "show", id, "--data", data)
		if code != cli.ExitFailure {
			t.Errorf("user %s: exit code %d", id, code)
		}
		return errs
	}
	if code, _, errs := lite(t, `{"product_id":1,"product_name":"mug"}`, "products", "import", "-", small, "--embed", "--data", data); code != 0 {
		t.Fatal(errs)
	}
	if errs := show("7"); !strings.Contains(errs, "no event of this user was folded") {
		t.Errorf("before the first run: %s", errs)
	}
	url, stop := server(t, small, "--data", data, "--batch-window=1h", "--batch-max-delay=1h")
	for n, e := range searches(t, 2, "m") {
		if code, answer := post(t, url, string(e.Body)); code != http.StatusAccepted {
			t.Fatal(answer)
		}
		if n == 0 {
			if errs := show("1"); !strings.Contains(errs, "user 1 has no profile yet: 1 event waits for its window (5 s)") {
				t.Errorf("right after its post: %s", errs)
			}
		}
	}
	post(t, url, `{"user_id":2,"event_type":"search","search_phrase":"tent","occurred_at":"2026-02-10T14:30:00Z"}`)
	post(t, url, `{"user_id":3,"event_type":"product_view","product_id":9,"occurred_at":"2026-02-10T14:30:00Z"}`)
	if errs := show("2"); !strings.Contains(errs, "2 events wait for their window (5 s after the last of them, 15 s at most)") {
		t.Errorf("two events: %s", errs)
	}
	stop()
	if code, _, errs := lite(t, "", "user", "show", "1", "--data", data); code != 0 {
		t.Errorf("folded: %s", errs)
	}
	if errs := show("3"); !strings.Contains(errs, "1 event skipped because the product was unknown") || !strings.Contains(errs, "rebuild --products") {
		t.Errorf("skipped: %s", errs)
	}
	if code, _, errs := lite(t, "", "user", "show", "3000000000", "--data", data); code != cli.ExitUsage || !strings.Contains(errs, "it must be an integer from 1 to 2147483647") {
		t.Errorf("an id out of range: %d %s", code, errs)
	}
}

// A folder that cannot be read is not told as one without profiles.
func TestUnreadableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	// A path through a file fails for every user, root included.
	_, _, errs := lite(t, "", "user", "show", "1", "--data", filepath.Join(file, "data"))
	if strings.Contains(errs, "no profiles") || !strings.Contains(errs, "not a directory") {
		t.Errorf("%s", errs)
	}
}

func TestExportSaysWhatItWrote(t *testing.T) {
	data, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "p.ndjson")
	if code, _, errs := lite(t, `{"product_id":1,"product_name":"mug"}`, "products", "import", "-", small, "--embed", "--data", data); code != 0 {
		t.Fatal(errs)
	}
	code, _, errs := lite(t, "", "user", "export", file, "--data", data)
	if _, err := os.Stat(file); code != cli.ExitFailure || err == nil || !strings.Contains(errs, "no profiles") {
		t.Errorf("nothing to export: exit code %d, %s", code, errs)
	}
	var events strings.Builder
	for _, e := range searches(t, 3, "m") {
		events.Write(append(e.Body, '\n'))
	}
	fold(t, events.String(), small, "--events=-", "--data", data)
	if code, _, errs := lite(t, "", "user", "export", file, "--data", data); code != 0 || errs != "3 profiles written to "+file+"\n" {
		t.Errorf("%d %s", code, errs)
	}
}
