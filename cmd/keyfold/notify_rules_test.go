package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine/notify/rule"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/postgres"
)

// ruled returns a set that decides ALERT as NEVER with a reason of its own, under a
// version of its rule; more are further members of the document.
func ruled(reason string, version int, more string) string {
	return fmt.Sprintf(`{"version":%q,"rules":[{"rule_id":"6b657966-6f6c-4d00-8000-0000000000a1","name":"alerts","priority":1,
	"version":"1.%d.0","conditions":{"field":"event_type","operator":"eq","value":"ALERT"},
	"action":{"outcome":"NEVER","reason_code":%q}}]%s}`, reason, version, reason, more)
}

func setFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.json")
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestO1RulesLint: every fault of a set is named at once, and a faulty set cannot be
// published; nor one whose cases fail, or whose rules changed under their version.
//
// Promise(notify-worker/faulty-set): Of a faulty set, failing cases or an unexpected set in force
// nothing is published and every fault named; of two publications one wins.
// Promise(acceptance/o1): O1: lint names every fault of a set at once, and a faulty set cannot be
// published.
func TestO1RulesLint(t *testing.T) {
	s := newNotifyStack(t)
	says(t, s.must(t, "setup"), "the shipped set of rules is published as the set 1")
	says(t, s.must(t, "setup"), "the set of rules 1 is in force")
	faulty := setFile(t, `{"version":"1","mood":2,"rules":[{"rule_id":"x","priority":"y","conditions":{"op":"XOR"},"action":{"outcome":"SOON"}}]}`)
	code, out, errs := s.run(t, "rules", "lint", faulty)
	if code != 1 || !strings.Contains(errs, "cannot be used") {
		t.Errorf("%d: %s", code, errs)
	}
	says(t, out, "mood", "XOR", "SOON", "malformed UUID", "priority")

	failing := setFile(t, ruled("RULE_A", 0, `,"tests":[{"name":"wrong","event":{"event_type":"ALERT"},"outcome":"NOW","reasons":["RULE_B"]}]`))
	if code, out, _ := s.run(t, "rules", "test", failing); code != 1 || !strings.Contains(out, "failed: wrong") {
		t.Errorf("%d: %s", code, out)
	}
	changed := strings.Replace(string(rule.Default()), `"outcome": "NOW"`, `"outcome": "NEVER"`, 1)
	for file, fault := range map[string]string{
		faulty: "9 faults", setFile(t, changed): "1 fault",
		setFile(t, strings.Replace(string(rule.Default()), `"5m": 3`, `"5m": 4`, 1)): "1 test case of 37 failed",
		setFile(t, ruled("RULE_A", 0, "")):                                           "13 faults", setFile(t, string(rule.Default())): "nothing to publish",
	} {
		if code, out, errs := s.run(t, "rules", "publish", file, "--if-active", "1", "--note", "x"); code != 1 || !strings.Contains(errs, fault) {
			t.Errorf("%s: %d: %s%s", fault, code, out, errs)
		}
	}
	if sets := s.sets(t); len(sets) != 1 || !sets[0].InForce {
		t.Errorf("%+v", sets)
	}
}

type setListed struct {
	Version int64  `json:"set_version"`
	InForce bool   `json:"in_force"`
	By      string `json:"published_by"`
	Note    string
	Rules   int
}

func (s *notifyStack) sets(t *testing.T) []setListed {
	t.Helper()
	var listed struct{ Sets []setListed }
	must.OK(t, json.Unmarshal([]byte(s.must(t, "rules", "list", "-o", "json")), &listed))
	return listed.Sets
}

// Sets are published, listed, shown, compared and rolled back.
//
// Promise(notify-worker/rules-in-force, acceptance/o1)
func TestNotifyRules(t *testing.T) {
	s := newNotifyStack(t)
	if code, _, errs := s.run(t, "rules", "list"); code != 1 || !strings.Contains(errs, "notify setup") {
		t.Errorf("%d: %s", code, errs)
	}
	s.must(t, "setup")
	says(t, s.must(t, "rules", "test", setFile(t, s.must(t, "rules", "show"))), "version 2026-11-28", "passed")

	shipped := string(rule.Default())
	next := strings.Replace(strings.Replace(shipped, `"24h": 20`, `"24h": 21`, 1), `"version": "2026-11-28"`, `"version": "next"`, 1)
	file := setFile(t, next)
	if code, _, errs := s.run(t, "rules", "publish", file, "--if-active", "7", "--note", "x"); code != 1 || !strings.Contains(errs, "the set 1 is in force") {
		t.Errorf("%d: %s", code, errs)
	}
	says(t, s.must(t, "rules", "publish", file, "--if-active", "1", "--note", "one more", "--by", "ops"), "it can be used", "published as the set 2 in place of 1")
	if code, _, errs := s.run(t, "rules", "publish", file, "--if-active", "1", "--note", "x"); code != 1 || !strings.Contains(errs, "the set 2 is in force") {
		t.Errorf("%d: %s", code, errs)
	}
	says(t, s.must(t, "rules", "diff", "1", "2"), "policy.caps.24h: 20 -> 21", `version: "2026-11-28" -> "next"`)
	if out := s.must(t, "rules", "show", "2"); out != strings.TrimSpace(next)+"\n" {
		t.Errorf("shown: %s", out)
	}
	says(t, s.must(t, "rules", "rollback", "1"), "the document of the set 1 is published as the set 3 in place of 2")
	says(t, s.must(t, "rules", "diff", "1", "3"), "say the same")
	if out := s.must(t, "rules", "show"); out != strings.TrimSpace(shipped)+"\n" {
		t.Errorf("shown: %s", out)
	}
	sets := s.sets(t)
	if len(sets) != 3 || !sets[0].InForce || sets[0].Note != "rollback to 1" || sets[1].By != "ops" || sets[1].Note != "one more" || sets[2].Rules != 13 {
		t.Errorf("%+v", sets)
	}
	says(t, s.must(t, "rules", "list"), "*    3", "rollback to 1", "one more")
	for args, fault := range map[string]string{
		"rules rollback 3": "in force already", "rules rollback 9": "no such set", "rules show 9": "no such set", "rules diff 1 9": "no such set",
	} {
		if code, _, errs := s.run(t, strings.Fields(args)...); code != cli.ExitFailure || !strings.Contains(errs, fault) {
			t.Errorf("%s: %d: %s", args, code, errs)
		}
	}
	// A set of a later version is no measure, and no candidate for a rollback.
	s.publishUnchecked(t, `{"version":"later","rules":[],"moods":{}}`, 3)
	s.must(t, "rules", "publish", file, "--if-active", "4", "--note", "x")
	if code, _, errs := s.run(t, "rules", "rollback", "4"); code != 1 || !strings.Contains(errs, "does not know all of it") {
		t.Errorf("%d: %s", code, errs)
	}
}

// publishUnchecked publishes a document as another version of keyfold might.
func (s *notifyStack) publishUnchecked(t *testing.T, document string, ifActive int64) {
	t.Helper()
	l, err := postgres.Open(s.database, 1)
	must.OK(t, err)
	defer func() { _ = l.Close() }()
	_, err = l.Publish(t.Context(), postgres.Publication{Document: []byte(document), By: "later", IfActive: ifActive})
	must.OK(t, err)
}

// has returns an error unless a page of the daemon has a text.
func (d *daemon) has(path, text string) error {
	if _, body := d.get(path); !strings.Contains(body, text) {
		return errors.New(body)
	}
	return nil
}

// A set of a later version leaves the last good one in force, which /readyz and a metric
// say, of workers and APIs; a rollback cures it. A worker that has no good set does not
// begin.
//
// Promise(notify-worker/unusable-set): Where the set in force cannot be used the last good one decides
// on, `/readyz` and a metric say so; without one no worker begins.
func TestNotifyRulesOfALaterVersion(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	all := []*daemon{s.service(t, "work"), s.service(t, "serve", "--http-addr=127.0.0.1:0")}
	for _, d := range all {
		d.ready()
		eventually(t, "the set is in force", func() error { return d.has("/metrics", "keyfold_notify_rules_version 1\n") })
	}
	s.publishUnchecked(t, `{"version":"later","rules":[],"moods":{}}`, 1)
	for _, d := range all {
		eventually(t, "the fault is told", func() error { return d.has("/metrics", "keyfold_notify_rules_fault 1\n") })
		must.OK(t, errors.Join(d.has("/readyz", "rules: deciding by the set 1: the set 2 cannot be used"), d.has("/metrics", "keyfold_notify_rules_version 1\n"), d.unready()))
	}
	s.post(t, "SECURITY")
	s.dispatched(t)
	code, _, errs := s.run(t, "work", "--admin-addr=127.0.0.1:0")
	if code != cli.ExitFailure || !strings.Contains(errs, "rules rollback") {
		t.Errorf("%d: %s", code, errs)
	}
	s.must(t, "rules", "rollback", "1")
	for _, d := range all {
		eventually(t, "it is cured", func() error {
			return errors.Join(d.has("/metrics", "keyfold_notify_rules_fault 0\n"), d.has("/metrics", "keyfold_notify_rules_version 3\n"))
		})
	}
}

// A candidate decides in a worker beside the set in force: nothing comes of it but counts,
// samples and a metric.
//
// Promise(notify-worker/shadow)
func TestNotifyRulesShadow(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	s.publishUnchecked(t, ruled("IN_FORCE", 0, ""), 1)
	says(t, s.must(t, "rules", "shadow"), "there is no candidate")
	faulty := setFile(t, `{"version":"1","rules":[{}]}`)
	if code, out, errs := s.run(t, "rules", "shadow", faulty); code != 1 || !strings.Contains(out+errs, "cannot be used") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	d := s.work(t)
	eventually(t, "it is ready", d.unready)
	says(t, s.must(t, "rules", "shadow", setFile(t, ruled("WOULD_BE", 0, ""))), "decide by it a second time, without effect")
	type report struct {
		Shadow            bool
		Candidate         int64
		Decisions, Differ int
		Samples           []struct {
			Set          string   `json:"rule_version"`
			WasReasons   []string `json:"was_reasons"`
			WouldReasons []string `json:"would_reasons"`
		}
	}
	var r report
	eventually(t, "what differs is told", func() error {
		s.postTo(t, "a", "ALERT", "an alert")
		r = report{}
		if err := json.Unmarshal([]byte(s.must(t, "rules", "shadow", "-o", "json")), &r); err != nil || r.Differ == 0 {
			return fmt.Errorf("%+v: %w", r, err)
		}
		return nil
	})
	if !r.Shadow || r.Candidate != 1 || r.Decisions < r.Differ || r.Samples[0].Set != "2" || r.Samples[0].WasReasons[0] != "IN_FORCE" || r.Samples[0].WouldReasons[0] != "WOULD_BE" {
		t.Errorf("%+v", r)
	}
	must.OK(t, d.has("/metrics", `keyfold_notify_shadow_total{was="NEVER",would="NEVER"} `))
	says(t, s.must(t, "rules", "shadow", "--off"), "workers decide once")
	says(t, s.must(t, "rules", "shadow"), "the candidate 1 has ended", "NEVER -> NEVER", "by the set 2: NEVER IN_FORCE, would be NEVER WOULD_BE")
	if n := s.decidedWith(t, "WOULD_BE"); n != 0 {
		t.Errorf("%d decisions are by the candidate", n)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.log)
	}
}

// decidedWith counts decisions with a reason.
func (s *notifyStack) decidedWith(t *testing.T, reason string) (n int) {
	t.Helper()
	l, err := postgres.Open(s.database, 1)
	must.OK(t, err)
	defer func() { _ = l.Close() }()
	for d, err := range l.Records(t.Context(), ledger.Filter{}) {
		must.OK(t, err)
		if d.Record.Reasons[0] == reason {
			n++
		}
	}
	return n
}
