package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/api"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger/postgres"
)

// What is posted is previewed, decided and explained by the API and by the commands, which
// say the same; of an erased user's decision nothing is told but that.
func TestNotifyShow(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	http := s.service(t, "serve", "--http-addr=127.0.0.1:0").ready()
	s.service(t, "work").ready()
	id := uuid.New()
	quiet := strings.Replace(urgentNow(id, "17", "Everything at half the price"), "SECURITY", "PROMO", 1)
	var preview api.Preview
	if status, _ := http.call("POST", "/v1/decisions/preview", "", quiet, &preview); status != 200 || preview.Repeat || len(preview.Stages) != len(notify.Stages) || preview.Record.DecisionID != uuid.Nil {
		t.Fatalf("%d %+v", status, preview)
	}
	if all := s.decisionsOf(t); len(all) != 0 {
		t.Fatalf("a preview has stored %v", all)
	}
	p := http.waited(quiet)
	decision := p.Decisions[0].DecisionID.String()
	if p.Decisions[0].Outcome != preview.Record.Outcome.String() {
		t.Errorf("decided %s, previewed %s", p.Decisions[0].Outcome, preview.Record.Outcome)
	}

	var served, shown api.Explained
	http.call("GET", "/v1/decisions/"+decision, "", "", &served)
	out := s.must(t, "decision", "show", decision, "-o", "json")
	if err := json.Unmarshal([]byte(out), &shown); err != nil || strings.Join(shown.Lines, "\n") != strings.Join(served.Lines, "\n") || len(shown.Stages) != len(notify.Stages) || shown.DecidedBy != served.DecidedBy {
		t.Errorf("%v: %s", err, out)
	}
	text := s.must(t, "decision", "show", decision, "--stages")
	says(t, text, fmt.Sprintf("decision %s, by the stage %q\n", decision, cmp.Or(served.DecidedBy, "none")), `PROMO "Everything at half the price" for user 17 was decided at`, "stages:", "   1  erasure, expiry, cancellation", "  11  score")
	for _, line := range served.Lines {
		says(t, text, line)
	}
	says(t, s.must(t, "event", "show", id.String()), "decision "+decision)
	var turns struct{ Turns []api.Explained }
	if err := json.Unmarshal([]byte(s.must(t, "event", "show", id.String(), "-o", "json")), &turns); err != nil || len(turns.Turns) != 1 {
		t.Errorf("%v: %+v", err, turns)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"decision", "show", "x"}, cli.ExitUsage, "is no UUID"},
		{[]string{"decision", "show", id.String()}, cli.ExitFailure, "keyfold notify event show " + id.String()},
		{[]string{"event", "show", decision}, cli.ExitFailure, "keyfold notify decision show " + decision},
	} {
		if code, _, errs := s.run(t, c.args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit code %d: %s", c.args, code, errs)
		}
	}

	l, err := postgres.Open(s.database, 1)
	must.OK(t, err)
	defer func() { _ = l.Close() }()
	must.OK(t, l.Forget(t.Context(), "17", engine.Now()))
	for _, out := range []string{s.must(t, "decision", "show", decision, "--stages"), s.must(t, "event", "show", id.String(), "--stages")} {
		if want := "decision " + decision + "\n  The user of this decision was erased. What explained it was erased with the user.\n"; out != want {
			t.Errorf("of an erased user: %q", out)
		}
	}
}
