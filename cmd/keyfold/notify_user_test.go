package main

import (
	"encoding/json"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger/postgres"
	"keyfold/sink/ledgertest"
)

// Preferences are set and shown with what waits and what was decided. An erasure says
// what it takes, wants a confirmation, is hard to mistype, and leaves nothing; what is
// stored is verified before and after.
func TestNotifyUser(t *testing.T) {
	s := newNotifyStack(t)
	now := engine.Now()
	events := s.fill(t, []string{"anna", "bert"}, notify.Later, now, now+7_200_000)

	own := `{"zone":"Europe/Berlin","quiet":[{"from":"22:00","to":"07:00"}],"muted":["PROMO"],"channels":["push"],"caps":[2,4,10]}`
	says(t, s.must(t, "user", "set", "anna", own), "preferences of user anna are stored")
	says(t, s.must(t, "user", "set", "carl", `{"muted":["PROMO"]}`, "-o", "json"), `"user_id":"carl"`, `"PROMO"`)
	says(t, s.must(t, "user", "show", "anna"), "Europe/Berlin", "22:00", `[2,4,10]`, "waits until", "LATER", events[0].String())
	var shown struct {
		Version   int
		Waiting   []struct{ Turn int }
		Decisions []any
	}
	if err := json.Unmarshal([]byte(s.must(t, "user", "show", "anna", "--last", "0", "-o", "json")), &shown); err != nil || shown.Version != 2 || len(shown.Waiting) != 1 || shown.Waiting[0].Turn != 1 || len(shown.Decisions) != 0 {
		t.Errorf("%v: %+v", err, shown)
	}

	says(t, s.must(t, "user", "forget", "anna", "--dry-run"), "1 deferral", "1 decision would be erased")
	code, out, errs := s.run(t, "user", "forget", "anna")
	if code != cli.ExitUsage || !strings.Contains(errs, "--yes") {
		t.Errorf("without a terminal: %d: %s%s", code, out, errs)
	}
	if code, out, errs = s.run(t, "user", "forget", "ana", "--yes"); code != 1 || !strings.Contains(errs, "--even-if-unknown") {
		t.Errorf("a mistyped id: %d: %s%s", code, out, errs)
	}
	says(t, s.must(t, "user", "forget", "anna", "--yes"), "1 deferral", "1 decision erased", "not sent from now on")
	says(t, s.must(t, "user", "forget", "anna", "--yes"), "was erased before")
	says(t, s.must(t, "user", "forget", "ana", "--yes", "--even-if-unknown", "-o", "json"), `"erased":true`, `"erased_before":false`)
	says(t, s.must(t, "user", "show", "anna"), "erased: later", "preferences  {}")
	says(t, s.must(t, "user", "verify", "anna"), "is erased, and no decision")
	says(t, s.must(t, "user", "show", "bert"), events[1].String())
	if code, _, errs = s.run(t, "user", "set", "anna", "{}"); code != 1 || !strings.Contains(errs, "is erased") {
		t.Errorf("preferences of an erased user: %d: %s", code, errs)
	}

	for args, says := range map[string]string{
		"set anna []":                                   "JSON object",
		`set anna {"zone":"Mars"}`:                      "zone",
		"show anna --last -1":                           "--last",
		"forget " + strings.Repeat("x", 129) + " --yes": "1 to 128 characters",
	} {
		if code, _, errs := s.run(t, append([]string{"user"}, strings.Fields(args)...)...); code != cli.ExitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: %d: %s", args, code, errs)
		}
	}
	for _, verb := range []string{"show", "verify"} {
		if code, _, errs := s.run(t, "user", verb, "unknown"); code != 1 || !strings.Contains(errs, "nothing is stored of user unknown") {
			t.Errorf("%s: %d: %s", verb, code, errs)
		}
	}
}

// A state that is not what the records come to is told with its differences.
//
// Promise(ledger/verify)
func TestNotifyUserVerify(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	l, err := postgres.Open(s.database, 1)
	must.OK(t, err)
	defer l.Close()
	at := engine.Now()
	var state notify.State
	for version := range int64(4) {
		d := ledgertest.Decide(ledgertest.Event("anna", notify.Update, at), version+1, 0, notify.Now, at+engine.Millis(version))
		d.Record.Facts.Horizon = 24 * 3_600_000
		state.Fold(&d.Record)
		must.OK(t, l.Commit(t.Context(), []notify.Change{{User: "anna", Version: version, State: &state, Decided: []notify.Decided{d}}}, nil)[0])
	}
	says(t, s.must(t, "user", "verify", "anna"), "user anna: the stored state is what", "come to")
	state.Sends = state.Sends[1:]
	state.LastSend[notify.Promo] = at
	d := ledgertest.Decide(ledgertest.Event("anna", notify.Update, at), 5, 0, notify.Never, at+4)
	d.Record.Facts.Horizon = 24 * 3_600_000
	state.DecidedAt = at + 4
	must.OK(t, l.Commit(t.Context(), []notify.Change{{User: "anna", Version: 4, State: &state, Decided: []notify.Decided{d}}}, nil)[0])
	code, out, errs := s.run(t, "user", "verify", "anna")
	says(t, out, "is not what 5 records", "sends are counted", "the last PROMO is of")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	says(t, errs, "differ in 2 places")
}
