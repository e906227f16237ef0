package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"keyfold/engine/notify/rule"
	"keyfold/service/notify/simulate"
)

// The sample week is decided anew: the shipped set changes nothing, one with lower caps does.
//
// Promise(ledger/simulate)
func TestNotifySimulate(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	notified(t, "", "--data", data, "--sample", strconv.Itoa(often(30, 60)))
	simulated := func(set []byte, args ...string) (report simulate.Report) {
		t.Helper()
		args = append([]string{"notify", "rules", "simulate", writeFile(t, "candidate.json", string(set)), "--data", data, "-o", "json"}, args...)
		code, out, errs := lite(t, "", args...)
		if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
			t.Fatalf("exit code %d: %s%s %v", code, errs, out, err)
		}
		return report
	}
	for _, last := range []string{"30d", "3d"} {
		if r := simulated(rule.Default(), "--last", last); r.Changed != 0 || r.Added != 0 || r.Read < 100 || r.NotReplayable != 0 {
			t.Errorf("the set in force over %s: %+v", last, r)
		}
	}
	lower := bytes.Replace(rule.Default(), []byte(`"caps": {"5m": 3, "1h": 6, "24h": 20}`), []byte(`"caps": {"5m": 1, "1h": 2, "24h": 4}`), 1)
	if r := simulated(lower, "--last", "30d"); r.Changed == 0 || len(r.Rules) == 0 || len(r.MostChanged) == 0 {
		t.Errorf("lower caps: %+v", r)
	}
	for _, args := range [][]string{{"--sample", "0"}, {"--user", strings.Repeat("x", 200)}} {
		args = append([]string{"notify", "rules", "simulate", writeFile(t, "set.json", string(rule.Default())), "--data", data}, args...)
		if code, _, errs := lite(t, "", args...); code != 2 {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
}
