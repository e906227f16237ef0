package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
)

// Dead events are named with their lines by the run, and found again afterwards.
func TestDeadEventsAreFound(t *testing.T) {
	file, data := filepath.Join(t.TempDir(), "events.ndjson"), filepath.Join(t.TempDir(), "data")
	lines := []string{
		`{"user_id":1,"event_type":"search","search_phrase":"mug","occurred_at":"2026-02-10T14:30:00Z"}`, "",
		`{"user_id":1,"event_type":"product_clik","product_id":1,"occurred_at":"2026-02-10T14:30:00Z"}`,
		`not json`, `{"user_id":1}`, `{"user_id":2}`, `{"user_id":3}`, `{"user_id":4}`,
	}
	must.OK(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	args := []string{small, "--no-products", "--exit", "--data", data, "--events", file}
	code, out, _ := lite(t, "", args...)
	if code != 0 || !strings.Contains(out, `line 3: event_type: found "product_clik", expected one of`) || !strings.Contains(out, "line 4: ") ||
		!strings.Contains(out, "failed list") || strings.Contains(out, "line 8") {
		t.Errorf("exit code %d, want 0 and the first five: %s", code, out)
	}
	if code, _, errs := lite(t, "", append(args, "--strict")...); code != cli.ExitFailure || !strings.Contains(errs, "6 events dead") {
		t.Errorf("--strict: exit code %d, %s", code, errs)
	}
	s := fold(t, "", args...)
	if len(s.FirstDead) != 5 || s.FirstDead[0].Line != 3 || s.FirstDead[0].File != file || s.FirstDead[0].Reason != "unknown_event_type" || s.FirstDead[0].Detail == "" {
		t.Errorf("-o json: %+v", s.FirstDead)
	}

	_, out, _ = lite(t, "", "dead", "list", "--data", data)
	if strings.Count(out, "\n") != 6 || !strings.Contains(out, "1  "+file+":3  unknown_event_type  event_type: found") || !strings.Contains(out, file+":8") {
		t.Errorf("dead list: %s", out)
	}
	_, out, _ = lite(t, "", "dead", "list", "--data", data, "--reason", "malformed_json", "-o", "json")
	var e deadEvent
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.ID != 2 || e.Line != 4 || e.Times != 3 || e.Body != nil {
		t.Errorf("one reason: %s (%v)", out, err)
	}
	if _, out, _ = lite(t, "", "dead", "list", "--data", data, "--reason", "nosuch"); !strings.Contains(out, `no event is dead with the reason "nosuch"`) {
		t.Errorf("another reason: %s", out)
	}
	if _, out, _ = lite(t, "", "dead", "show", "1", "--data", data); !strings.Contains(out, lines[2]) || !strings.Contains(out, file+":3") {
		t.Errorf("dead show: %s", out)
	}
	for args, want := range map[string]int{"show 7": cli.ExitFailure, "show 0": cli.ExitUsage, "list --data=" + t.TempDir(): cli.ExitFailure} {
		if code, _, errs := lite(t, "", append([]string{"dead", "--data", data}, strings.Fields(args)...)...); code != want {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
	}
}
