package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/simulate"
)

// A simulation reads the decisions that are stored, and leaves them as they are.
//
// Promise(ledger/simulate)
func TestNotifyRulesSimulate(t *testing.T) {
	s := newNotifyStack(t)
	now := engine.Now()
	s.fill(t, []string{"anna", "bert"}, notify.Later, now, now+7_200_000)
	set := filepath.Join(t.TempDir(), "set.json")
	must.OK(t, os.WriteFile(set, rule.Default(), 0o600))
	shown := s.must(t, "user", "show", "anna", "-o", "json")
	says(t, s.must(t, "rules", "simulate", set), "decisions read", "Assumed: senders post")
	for user, want := range map[string]int64{"anna": 1, "carl": 0} {
		var report simulate.Report
		if err := json.Unmarshal([]byte(s.must(t, "rules", "simulate", set, "--user", user, "-o", "json")), &report); err != nil || report.Read != want {
			t.Errorf("user %s: %v: %+v", user, err, report)
		}
	}
	if after := s.must(t, "user", "show", "anna", "-o", "json"); after != shown {
		t.Errorf("before: %s\nafter: %s", shown, after)
	}
	if code, out, errs := s.run(t, "rules", "simulate", filepath.Join("testdata", "none.json")); code == 0 {
		t.Errorf("a file that is not there: %s%s", out, errs)
	}
}
