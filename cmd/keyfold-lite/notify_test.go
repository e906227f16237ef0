package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/internal/testserver/must"
	"keyfold/service/notify/api"
	"keyfold/service/notify/preference"
	"keyfold/service/notify/ruleset"

	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
)

// writeFile writes a file of a test and returns its name.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// notified runs `notify` on JSON and returns the report.
func notified(t *testing.T, stdin string, args ...string) (s notifySummary) {
	t.Helper()
	code, out, errs := lite(t, stdin, append([]string{"notify", "-o", "json"}, args...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if s.Decided+s.Known+s.Refused != s.Read {
		t.Fatalf("%d lines accounted for of %d", s.Decided+s.Known+s.Refused, s.Read)
	}
	return s
}

const postedLine = `{"event_id":%q,"user_id":"17","event_type":"SECURITY","title":"Your code is %d","source":"login","channel":["push"],"timestamp":"2026-03-30T12:00:00Z"}` + "\n"

func postedLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, postedLine, uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)), 1000+i)
	}
	return b.String()
}

// The trial decides a week, shows the matrix, explains three decisions and says what
// to try next. A second run decides nothing and says so.
func TestNotifyTrial(t *testing.T) {
	t.Parallel()
	data, sample := filepath.Join(t.TempDir(), "data"), strconv.Itoa(often(50, 100))
	code, out, errs := lite(t, "", "notify", "--sample", sample, "--data", data)
	if code != 0 || !strings.HasPrefix(errs, "making a sample week of notifications for "+sample+" users") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{
		`(?m)^[\d,]+ notifications for ` + sample + ` users: [\d,]+ decisions in [\d.]+ s\.$`,
		`(?m)^  decisions +NOW +LATER +NEVER$`,
		`(?m)^  SECURITY +[\d,]+ +0 +\d+$\n    NOW    SECURITY_ALWAYS [\d,]+`,
		`(?m)^  PROMO +[\d,]+ +[\d,]+ +[\d,]+$`,
		`(?m)^  messages +[\d,]+  for senders`,
		`(?m)^Example 1 \(`, `(?m)^Example 3 \(`, `(?m)^  1 h: \d+ of \d+ sent`, // and more, which depends on the day
		`notify explain [0-9a-f-]{36}`, `notify rules test rules.json`, `notify serve`, `/v1/notifications -d`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
	code, again, errs := lite(t, "", "notify", "--sample", sample, "--data", data)
	if code != 0 || !strings.Contains(again, "were decided by an earlier run: nothing to do") {
		t.Errorf("exit code %d: %s%s", code, errs, again)
	}
	matrix := regexp.MustCompile(`(?s)  decisions .*?\n\n`)
	if matrix.FindString(out) != matrix.FindString(again) {
		t.Error("the second run shows another matrix")
	}
	id := regexp.MustCompile(`notify explain ([0-9a-f-]{36})`).FindStringSubmatch(out)[1]
	code, out, errs = lite(t, "", "notify", "explain", id[:8], "--data", data)
	if code != 0 || !strings.Contains(out, "was decided at") {
		t.Errorf("explain: exit code %d: %s%s", code, errs, out)
	}
}

// The sample does not mix with notifications of a file.
func TestNotifySampleKeepsApart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	notified(t, postedLines(1), "--data", data, "--events", "-")
	code, _, errs := lite(t, "", "notify", "--sample", "10", "--data", data)
	if code != 2 || !strings.Contains(errs, "name another folder with --data") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// Bad lines are told with line and all faults, counted, and stop nothing.
func TestNotifyFileWithBadLines(t *testing.T) {
	data, out := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "out.ndjson")
	bad := postedLines(2) + `{"user_id":5,"event_type":"NEWS","channel":[]}` + "\nnonsense\n" + postedLines(3)
	code, text, errs := lite(t, bad, "notify", "--data", data, "--events", "-", "--send-to", out)
	if code != 0 || !strings.Contains(text, "refused") {
		t.Fatalf("exit code %d: %s%s", code, errs, text)
	}
	for _, want := range []string{"standard input:3: user_id", "standard input:3: event_type", "standard input:3: channel", "standard input:3: title", "standard input:4: "} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in %s", want, errs)
		}
	}
	sent, err := os.ReadFile(out)
	if err != nil || bytes.Count(sent, []byte("\n")) != 3 {
		t.Errorf("sent %s, %v", sent, err)
	}
	if s := notified(t, bad, "--data", data, "--events", "-"); s.Decisions != 0 || s.Known != 5 || s.Refused != 2 || len(s.First) != 2 || len(s.First[0].Faults) < 5 {
		t.Errorf("the second run: %+v", s)
	}
	if code, _, errs := lite(t, bad, "notify", "--data", data, "--events", "-", "--strict"); code != 1 || !strings.Contains(errs, "2 lines refused") {
		t.Errorf("--strict: exit code %d: %s", code, errs)
	}
}

func TestNotifyUsageFaults(t *testing.T) {
	for want, args := range map[string][]string{
		"exclude each other":       {"--events", "-", "--send-to", "x", "--webhook", "http://h"},
		"webhook's address":        {"--events", "-", "--webhook", "h"},
		"NOTIFY_ZONE":              {"--zone", "Mars/Base"},
		"NOTIFY_MORNING":           {"--morning", "8"},
		"NOTIFY_DIGEST_TIMES":      {"--digest-times", "18:00,09:00"},
		"between 10 and 100000":    {"--sample", "9"},
		"brings its own users":     {"--users", "x"},
		"no such file":             {"--events", "nowhere.ndjson"},
		"nowhere.json":             {"--events", "-", "--rules", "nowhere.json"},
		"name a file for one of":   {"--events", "-", "--users", "-"},
		"nothing was decided in ":  {"explain", "abcd"},
		"nothing was decided in d": {"user", "show", "17"},
	} {
		data := filepath.Join(t.TempDir(), "data")
		if strings.HasSuffix(want, " d") {
			want = strings.TrimSuffix(want, "d")
		}
		code, _, errs := lite(t, "", append(append([]string{"notify"}, args...), "--data", data)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%v made the folder", args)
		}
	}
}

// Preferences of a file are stored before the first decision; a bad one stops the
// run, and all are named.
func TestNotifyUsersFile(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	bad := writeFile(t, "bad.ndjson", `{"user_id":"17","quite":[]}
{"zone":"Mars/Base","caps":[1,2]}
{"user_id":17,"muted":["NEWS"]}
x`)
	code, _, errs := lite(t, postedLines(1), "notify", "--data", data, "--events", "-", "--users", bad)
	for _, want := range []string{":1: quite: no such field", ":2: zone: ", ":2: user_id: missing", ":3: muted: ", ":3: user_id: ", ":4: "} {
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("no %q: exit code %d: %s", want, code, errs)
		}
	}
	users := writeFile(t, "users.ndjson", `{"user_id":"17","channels":["email"]}`)
	update := strings.ReplaceAll(postedLines(1), "SECURITY", "UPDATE")
	s := notified(t, update, "--data", data, "--events", "-", "--users", users)
	if len(s.Matrix) != 1 || s.Matrix[0].Reason != notify.ReasonNoChannel {
		t.Errorf("%+v", s.Matrix)
	}
}

// Every fault of a set is named at once, and cases that fail are an error.
//
// Promise(acceptance/o1)
func TestNotifyRules(t *testing.T) {
	code, shown, errs := lite(t, "", "notify", "rules", "show")
	if code != 0 || !json.Valid([]byte(shown)) {
		t.Fatalf("exit code %d: %s%s", code, errs, shown)
	}
	file := writeFile(t, "rules.json", shown)
	if code, out, errs := lite(t, "", "notify", "rules", "test", file); code != 0 || !strings.Contains(out, "passed") {
		t.Errorf("exit code %d: %s%s", code, errs, out)
	}
	for _, command := range []string{"lint", "test", "simulate"} {
		if code, _, errs := lite(t, "", "notify", "rules", command, "nowhere.json"); code != 2 || !strings.Contains(errs, "the set of rules: open nowhere.json") {
			t.Errorf("%s: exit code %d: %s", command, code, errs)
		}
	}
	bad := writeFile(t, "bad.json", `{"version":"1","rules":[{"rule_id":"x","priority":"y","conditions":{"op":"XOR"},"action":{"outcome":"SOON"}}]}`)
	code, out, errs := lite(t, "", "notify", "rules", "lint", bad, "-o", "json")
	var found ruleset.Checked
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != 1 || found.Valid || len(found.Faults) < 4 {
		t.Errorf("exit code %d: %s%s %v", code, errs, out, err)
	}
	if code, _, errs := lite(t, "", "notify", "--events", "-", "--rules", bad, "--data", filepath.Join(t.TempDir(), "d")); code != 2 || strings.Count(errs, "\n") < 4 {
		t.Errorf("a run with a faulty set: exit code %d: %s", code, errs)
	}
	var document map[string]json.RawMessage
	must.OK(t, json.Unmarshal(rule.Default(), &document))
	document["tests"] = json.RawMessage(`[{"name":"wrong","event":{"event_type":"SECURITY"},"outcome":"NEVER","reasons":["MUTED"]}]`)
	text, err := json.Marshal(document)
	must.OK(t, err)
	code, out, errs = lite(t, "", "notify", "rules", "test", writeFile(t, "failing.json", string(text)))
	if code != 1 || !strings.Contains(out, "failed: wrong") || !strings.Contains(errs, "1 test case of 1 failed") {
		t.Errorf("exit code %d: %s%s", code, errs, out)
	}
}

func TestNotifyExplain(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	notified(t, postedLines(40), "--data", data, "--events", "-")
	id := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, 0)).String()
	code, out, errs := lite(t, "", "notify", "explain", id, "--data", data, "-o", "json")
	var turns []api.Explained
	if err := json.Unmarshal([]byte(out), &turns); err != nil || code != 0 || len(turns) != 1 || len(turns[0].Lines) == 0 {
		t.Fatalf("exit code %d: %s%s %v", code, errs, out, err)
	}
	decision := turns[0].Record.DecisionID.String()
	for _, c := range []struct {
		id, want string
		code     int
	}{
		{decision, decision, 0},
		{strings.ToUpper(id), decision, 0},
		{id[:13], decision, 0},
		{"ab", "too short", 2},
		{decision[:8], "ids begin with", 2},
		{"ffffffff-ffff", "no decision", 1},
		{uuid.New().String(), "no decision", 1},
	} {
		if code, out, errs := lite(t, "", "notify", "explain", c.id, "--data", data); code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d: %s%s", c.id, code, errs, out)
		}
	}
}

func TestNotifyUser(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	user := func(want string, wanted int, args ...string) {
		t.Helper()
		code, out, errs := lite(t, "", append(append([]string{"notify", "user"}, args...), "--data", data)...)
		if code != wanted || !strings.Contains(out+errs, want) {
			t.Errorf("%v: exit code %d: %s%s", args, code, errs, out)
		}
	}
	user("are stored", 0, "set", "17", `{"zone":"Europe/Berlin","quiet":[{"from":"22:00","to":"07:00"}],"muted":["PROMO"]}`)
	user("caps", 2, "set", "17", `{"caps":[1,2,999]}`)
	notified(t, postedLines(2), "--data", data, "--events", "-")
	user("Europe/Berlin", 0, "show", "17")
	user("SECURITY_ALWAYS", 0, "show", "17")
	user("nothing is stored", 1, "show", "18")
	user("is what 2 records", 0, "verify", "17")
	user("nothing is stored", 1, "verify", "18")
	user("2 decisions would be erased", 0, "forget", "17", "--dry-run")
	user("--even-if-unknown", 1, "forget", "18", "--yes")
	user("SECURITY_ALWAYS", 0, "show", "17")
	user("--yes", 2, "forget", "17")
	user("2 decisions erased", 0, "forget", "17", "--yes")
	user("erased before", 0, "forget", "17", "--yes")
	user("erased", 0, "show", "17")
	user("no decision or deferral names the user", 0, "verify", "17")
	stored, err := os.ReadFile(filepath.Join(data, ledgerName))
	if err != nil || bytes.Contains(stored, []byte("Your code is")) {
		t.Errorf("texts are in the file: %v", err)
	}
	if s := notified(t, postedLines(3), "--data", data, "--events", "-"); s.Decided != 1 || s.Matrix[len(s.Matrix)-1].Reason != notify.ReasonUserErased {
		t.Errorf("after the erasure: %+v", s)
	}
}

// The example in docs/examples has no bad line, and its rules are the shipped ones.
func TestNotifyExample(t *testing.T) {
	const folder = "../../docs/examples/notify/"
	s := notified(t, "", "--data", filepath.Join(t.TempDir(), "data"), "--events", folder+"events.ndjson", "--rules", folder+"rules.json")
	if s.Decided != 8 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
	text, err := os.ReadFile(folder + "rules.json")
	if err != nil || !bytes.Equal(text, rule.Default()) {
		t.Errorf("rules.json is not the shipped set (`keyfold-lite notify rules show` prints that): %v", err)
	}
}

// Senders that cannot be opened end a run with a message.
func TestNotifySendersThatCannotBeOpened(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{folder, filepath.Join(folder, "none", "out.ndjson")} {
		for _, args := range [][]string{{"--events", "-"}, {"serve", "--http-addr", "127.0.0.1:0"}} {
			code, _, errs := lite(t, postedLines(1), slices.Concat([]string{"notify"}, args, []string{"--data", filepath.Join(t.TempDir(), "data"), "--send-to", path})...)
			if code == 0 || !strings.Contains(errs, path) {
				t.Errorf("%s: exit code %d: %s", args, code, errs)
			}
		}
	}
}

// An erased user of the sample stays erased and does not stop a second run.
func TestNotifySampleAfterForget(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{{"--sample", "10"}, {"user", "forget", "1", "--yes"}, {"--sample", "10"}} {
		if code, _, errs := lite(t, "", append([]string{"notify", "--data", data}, args...)...); code != 0 {
			t.Fatalf("%s: exit code %d: %s", args, code, errs)
		}
	}
	if code, out, errs := lite(t, "", "notify", "--data", data, "user", "show", "1"); code != 0 || !strings.Contains(out, "erased") {
		t.Errorf("exit code %d: %s%s", code, errs, out)
	}
	for user := 1; user <= 10; user++ {
		if code, out, errs := lite(t, "", "notify", "--data", data, "user", "verify", fmt.Sprint(user)); code != 0 {
			t.Errorf("user %d: exit code %d: %s%s", user, code, errs, out)
		}
	}
	// The week of other users has the same ids for other events.
	if code, _, errs := lite(t, "", "notify", "--data", data, "--sample", "60"); code != 2 || !strings.Contains(errs, "a sample of another size") {
		t.Errorf("another size: exit code %d: %s", code, errs)
	}
}

// What is refused only when it is decided is told too, and nothing that was refused
// counts as decided by an earlier run.
func TestNotifyRefusedEventsAreTold(t *testing.T) {
	data, line := filepath.Join(t.TempDir(), "data"), postedLines(1)
	notified(t, line, "--data", data, "--events", "-")
	other := strings.Replace(line, `"17"`, `"18"`, 1)
	code, out, errs := lite(t, other, "notify", "--data", data, "--events", "-")
	if code != 0 || strings.Contains(out, "nothing to do") || !strings.Contains(errs, "of user 18: ") || !strings.Contains(errs, "belongs to another user's event") {
		t.Errorf("exit code %d: %s%s", code, errs, out)
	}
}

// Preferences name every fault in words of the JSON.
func TestNotifyPreferenceFaults(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                 `it must be a JSON object, found null`,
		`{"zone":5}`:           `zone: found 5, expected a string such as "Europe/Berlin"`,
		`{"muted":"PROMO"}`:    `muted: found "PROMO", expected a list such as ["PROMO"]`,
		`{"muted":["PROM"]}`:   `muted: found "PROM", expected one of MESSAGE, REMINDER, ALERT, PROMO, SYSTEM, UPDATE, SECURITY, DIGEST`,
		`{"channels":["fax"]}`: `channels: found "fax", expected one of push, email, sms, in_app`,
		`{"caps":[1,2]}`:       `caps: found [1,2], expected a list of three integers`,
		`{"quiet":[{"from":"25:00","to":"07:00","days":["mo"]}]}`: `quiet: span 1: "days"`,
	} {
		if _, _, err := preference.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected %s", text, err, want)
		}
	}
}
