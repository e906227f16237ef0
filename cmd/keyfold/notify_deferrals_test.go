package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger/postgres"
	"keyfold/sink/ledgertest"
)

// must runs a command that succeeds.
func (s *notifyStack) must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := s.run(t, args...)
	if code != 0 {
		t.Fatalf("%v: exit code %d: %s%s", args, code, out, errs)
	}
	return out
}

// says fails unless a text has all parts.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

// fill sets up and stores decisions: of each user one, decided at an instant and, as a
// LATER, due at another one.
func (s *notifyStack) fill(t *testing.T, users []string, outcome notify.Outcome, at, due engine.Millis) (events []uuid.UUID) {
	t.Helper()
	s.must(t, "setup")
	l, err := postgres.Open(s.database, 1)
	must.OK(t, err)
	defer func() { _ = l.Close() }()
	if _, err := l.EnsurePartitions(t.Context(), at, 1); err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		d := ledgertest.Decide(ledgertest.Event(user, notify.Update, at), 1, 0, outcome, at)
		if outcome == notify.Later {
			d.Record.DeferUntil = due
		}
		events = append(events, d.Event.ID)
		err := errors.Join(l.Commit(t.Context(), []notify.Change{{User: user, State: &notify.State{DecidedAt: at}, Decided: []notify.Decided{d}}}, nil)...)
		must.OK(t, err)
	}
	return events
}

func TestNotifyDeferrals(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	says(t, s.must(t, "deferrals", "stats"), "0 deferrals")
	now := engine.Now()
	events := s.fill(t, []string{"anna", "bert", "carl"}, notify.Later, now, now+7_200_000)
	overdue := s.fill(t, []string{"late"}, notify.Later, now, now-90*60_000)

	says(t, s.must(t, "deferrals", "stats"), "4 deferrals", "UPDATE    1        0      0    0    3      0      4", "was due 1h ago")
	var stats struct {
		All    map[string]any   `json:"all"`
		Types  []map[string]any `json:"by_type"`
		Oldest float64          `json:"oldest_due_seconds"`
	}
	must.OK(t, json.Unmarshal([]byte(s.must(t, "deferrals", "stats", "-o", "json")), &stats))
	if stats.All["total"] != 4.0 || stats.All["due"] != 1.0 || stats.Types[0]["due_within_a_day"] != 3.0 || stats.Oldest < 90*60 {
		t.Errorf("%+v", stats)
	}

	says(t, s.must(t, "deferrals", "list"), "EVENT", "anna", "carl", overdue[0].String(), cli.At((now + 7_200_000).Time()))
	if out := s.must(t, "deferrals", "list", "--user", "bert"); strings.Contains(out, "anna") || !strings.Contains(out, events[1].String()) {
		t.Errorf("%s", out)
	}
	if out := s.must(t, "deferrals", "list", "--due-before", "1m", "-o", "json"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"user_id":"late"`) || strings.Contains(out, "Order") {
		t.Errorf("%s", out)
	}
	if out := s.must(t, "deferrals", "list", "--limit", "2", "-o", "json"); strings.Count(out, "\n") != 2 {
		t.Errorf("%s", out)
	}
	if _, _, errs := s.run(t, "deferrals", "list", "--limit", "2"); errs != "the first 2; --limit shows more\n" {
		t.Errorf("%s", errs)
	}
	if _, out, errs := s.run(t, "deferrals", "list", "--user", "unknown"); out != "" || !strings.Contains(errs, "no such deferral") {
		t.Errorf("%s%s", out, errs)
	}

	says(t, s.must(t, "deferrals", "release", "--user", "anna", "--dry-run"), "1 deferral would be released")
	says(t, s.must(t, "deferrals", "release", "--user", "anna", "--yes"), "1 deferral released")
	code, out, errs := s.run(t, "deferrals", "release", "--yes", events[1].String(), overdue[0].String(), uuid.NewString(), "-o", "json")
	if code != 1 || out != "{\"dry_run\":false,\"released\":1}\n" || !strings.Contains(errs, "does not wait") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	says(t, s.must(t, "deferrals", "stats"), "UPDATE    3        0      0    0    1      0      4")
	for args, says := range map[string]string{
		"release":             "--user",
		"release --user anna": "--yes",
		"release 7 --yes":     "no event_id",
		"release --yes --user a " + fmt.Sprint(events[0]): "--user",
		"list --limit 0": "--limit",
	} {
		if code, _, errs := s.run(t, append([]string{"deferrals"}, strings.Fields(args)...)...); code != cli.ExitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: %d: %s", args, code, errs)
		}
	}
}

func TestNotifyRedispatch(t *testing.T) {
	s := newNotifyStack(t)
	now := engine.Now()
	s.fill(t, []string{"anna", "bert"}, notify.Now, now-600_000, 0)
	s.fill(t, []string{"young"}, notify.Now, now+3_600_000, 0)   // however long the test takes
	s.fill(t, []string{"expired"}, notify.Now, now-7_200_000, 0) // events of the suite expire after an hour
	depth := func() int {
		t.Helper()
		depths, err := rabbittest.Shared(t).Depths(s.vhost)
		must.OK(t, err)
		return depths["notification_dispatch.push"]
	}
	says(t, s.must(t, "redispatch", "--dry-run"), "3 notifications would be dispatched, the oldest decided at "+cli.At((now-7_200_000).Time()))
	if n := depth(); n != 0 {
		t.Errorf("a dry run dispatched %d", n)
	}
	says(t, s.must(t, "redispatch", "-o", "json"), `"waiting":3`, `"dispatched":2`, `"expired":1`, `"dry_run":false`)
	eventually(t, "both are in the queue", func() error {
		if n := depth(); n != 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	says(t, s.must(t, "redispatch"), "no notification waits")
	if code, _, errs := s.run(t, "redispatch", "--older-than", "0s"); code != cli.ExitUsage || !strings.Contains(errs, "--older-than") {
		t.Errorf("%d: %s", code, errs)
	}
}

// Promise(ledger/retention)
func TestNotifyRetention(t *testing.T) {
	s := newNotifyStack(t)
	code, _, errs := s.run(t, "retention")
	if code != 1 || !strings.Contains(errs, "keyfold notify setup") {
		t.Errorf("%d: %s", code, errs)
	}
	today := func() string { return engine.Now().Time().UTC().Format(time.DateOnly) }
	began := today()
	s.must(t, "setup")
	same, more := s.must(t, "retention"), s.must(t, "retention", "--ahead", "9", "-o", "json")
	if today() == began { // at midnight one of them has a day more to make
		says(t, same, "0 days made, 0 days dropped", "0 event keys deleted", "7 days ahead")
		says(t, more, `"days_made":2`, `"days_ahead":9`, `"keys_deleted":0`, `"days_dropped":0`)
	}
	old := engine.Now() - 100*24*3600*1000 // past NOTIFY_RETENTION
	events := s.fill(t, []string{"anna", "ben"}, notify.Now, old, 0)
	l, err := postgres.Open(s.database, 1)
	must.OK(t, err)
	must.OK(t, errors.Join(append(l.Commit(t.Context(), nil, ledgertest.Dispatched(events[0])), l.Close())...))
	day := old.Time().UTC().Format("2006-01-02")
	for range 2 { // nothing has changed
		says(t, s.must(t, "retention", "--dry-run"), day+" would be dropped", "0 days would be made, 1 day dropped", "2 event keys would be deleted, 1 of them")
	}
	says(t, s.must(t, "retention", "--dry-run", "-o", "json"),
		`"days":["`+day+`"]`, `"days_dropped":1`, `"keys_deleted":2`, `"keys_lost":1`, `"dry_run":true`)
	code, out, errs := s.run(t, "retention", "-o", "json")
	if says(t, out, `"days_dropped":1`, `"keys_deleted":2`, `"keys_lost":1`, `"dry_run":false`); code != 0 || !strings.Contains(errs, "warning: ") {
		t.Errorf("%d: %s", code, errs)
	}
	if code, _, errs := s.run(t, "retention"); code != 0 || errs != "" {
		t.Errorf("%d: %s", code, errs)
	}
	if code, _, errs := s.run(t, "retention", "--ahead", "0"); code != cli.ExitUsage || !strings.Contains(errs, "--ahead") {
		t.Errorf("%d: %s", code, errs)
	}
}
