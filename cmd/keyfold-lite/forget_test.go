package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
)

// secret is what only the events of the erased user hold.
const secret = "zanzibar lamp"

// Forgetting leaves nothing of the user in the folder, not even bytes that are
// no longer used, and everything of the others.
//
// Promise(security/forget)
func TestForget(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	search := func(user, n int, phrase string) string {
		return fmt.Sprintf(`{"user_id":%d,"event_type":"search","search_phrase":"%s %d","occurred_at":"2026-02-10T14:30:%02dZ"}`, user, phrase, n, n%60)
	}
	var lines []string
	for n := range 40 {
		lines = append(lines, search(17, n, secret), search(18, n, "garden hose"))
	}
	lines = append(lines,
		`{"user_id":17,"event_type":"search","search_phrase":null,"metadata":{"note":"`+secret+`"}}`,
		`{"user_id":"17","event_type":"search","search_phrase":"`+secret+strings.Repeat(" ", 20_000)+`"}`,
		`{"user_id":18,"event_type":"search","search_phrase":null}`, "not json")
	args := []string{small, "--data", data}
	fold(t, strings.Join(lines, "\n"), append(args, "--no-products", "--events", "-")...)
	url, kill := process(t, args...)
	for n := range 5 {
		if !send(url, []byte(search(17, 100+n, secret))) || !send(url, []byte(search(18, 100+n, "garden hose"))) {
			t.Fatal("a post was refused")
		}
	}
	if code, _, errs := lite(t, "", "user", "forget", "17", "--yes", "--data", data); code == 0 || !strings.Contains(errs, "in use") {
		t.Errorf("beside a running one: exit code %d, %s", code, errs)
	}
	kill()
	if !holds(t, data, secret) {
		t.Fatal("the folder does not show what it holds: the search below would say nothing")
	}
	forget := func(want forgotten) {
		t.Helper()
		code, out, errs := lite(t, "", "user", "forget", "17", "--yes", "--data", data, "-o", "json")
		var got forgotten
		if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
			t.Fatalf("exit code %d: %s%s", code, out, errs)
		}
		if got.Events >= 40 && got.Events <= 45 {
			got.Events = want.Events // the posts that had come to the inbox before the kill
		}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	forget(forgotten{UserID: 17, Erased: true, Profile: "erased", Events: 45, Posts: 5, Dead: 2, DeadLeft: 1})
	if holds(t, data, secret) {
		t.Error("the folder still holds the user's phrases")
	}
	forget(forgotten{UserID: 17, Erased: true, Profile: "was erased before", DeadLeft: 1})

	// Nothing brings the user back, and the other one is as before.
	s := fold(t, search(17, 7, secret)+"\n"+search(18, 7, "garden hose"), append(args, "--no-products", "--events", "-")...)
	if s.Skipped != 1 {
		t.Errorf("afterwards: %+v", s)
	}
	_, out, _ := lite(t, "", "user", "show", "18", "--data", data, "-o", "json")
	var shown struct {
		Events int64 `json:"event_count"`
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || shown.Events != 45 {
		t.Errorf("user 18 has %d events (%v): %s", shown.Events, err, out)
	}
	for args, want := range map[string]int{"forget 0": cli.ExitUsage, "forget 17 --data=" + t.TempDir(): cli.ExitFailure} {
		if code, _, errs := lite(t, "", append([]string{"user"}, strings.Fields(args)...)...); code != want {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
	}
}

// holds looks for text in the bytes of a folder's files.
func holds(t *testing.T, folder, text string) bool {
	t.Helper()
	files, err := os.ReadDir(folder)
	must.OK(t, err)
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(folder, file.Name()))
		must.OK(t, err)
		if bytes.Contains(content, []byte(text)) {
			return true
		}
	}
	return false
}

// Forgetting asks, can be tried, and refuses an id that nothing is stored of.
//
// Promise(security/forget)
func TestForgetIsHardToMistype(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	fold(t, string(searches(t, 1, "m")[0].Body)+"\n"+`{"user_id":"1"}`, small, "--no-products", "--events=-", "--data", data)
	forget := func(args ...string) (int, string) {
		code, out, errs := lite(t, "", append([]string{"user", "forget", "--data", data}, args...)...)
		return code, out + errs
	}
	untouched := exported(t, data)[1].Version
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"1", cli.ExitUsage, "--yes"},
		{"1 --dry-run", 0, "the profile of user 1 would be erased\n  1 event, 0 posts, 1 dead event would be deleted\n"},
		{"1 --dry-run -o json", 0, `"erased":false,"profile":"would be erased"`},
		{"999 --yes", cli.ExitFailure, "--even-if-unknown"},
		{"999 --dry-run", cli.ExitFailure, "--even-if-unknown"},
	} {
		if code, said := forget(strings.Fields(tc.args)...); code != tc.code || !strings.Contains(said, tc.want) {
			t.Errorf("%s: exit code %d, %s", tc.args, code, said)
		}
		if got := exported(t, data); len(got) != 1 || got[1].Version != untouched {
			t.Fatalf("%s changed something: %v", tc.args, got)
		}
	}
	if code, said := forget("1", "--yes"); code != 0 || !strings.Contains(said, "the profile of user 1 is erased\n  1 event, 0 posts, 1 dead event deleted\n") {
		t.Errorf("%d %s", code, said)
	}
	if code, said := forget("1", "--yes"); code != 0 || !strings.Contains(said, "user 1 was erased at 2") {
		t.Errorf("again: %d %s", code, said)
	}
	if code, said := forget("999", "--yes", "--even-if-unknown"); code != 0 || !strings.Contains(said, "user 999 had no profile") {
		t.Errorf("an unknown user: %d %s", code, said)
	}
	if s := fold(t, `{"user_id":999,"event_type":"search","search_phrase":"mug","occurred_at":"2026-02-10T14:30:00Z"}`,
		small, "--no-products", "--events=-", "--data", data); s.SkippedBy["user_erased"] != 1 {
		t.Errorf("a later event of it: %+v", s)
	}
}
