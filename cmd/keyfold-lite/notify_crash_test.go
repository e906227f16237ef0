package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/internal/testserver/must"
	"keyfold/proof/notifyoracle"
	"keyfold/service/notify/ruleset"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/sink/ledger"
	"keyfold/sink/senders/message"
	"keyfold/source/sample/notifications"
)

// weekFiles writes a small week of notifications and its users.
func weekFiles(t *testing.T, users int) (events, preferences string, week notifications.Week) {
	t.Helper()
	config := notifications.DefaultConfig()
	config.Users = users
	config.Start = time.Date(2026, 3, 26, 0, 0, 0, 0, time.UTC)
	week = notifications.Generate(config)
	var posted, settings bytes.Buffer
	for i := range week.Events {
		posted.Write(week.Events[i].Body)
		posted.WriteByte('\n')
	}
	for _, u := range week.Users {
		text, err := json.Marshal(u.Preferences)
		must.OK(t, err)
		line := `{"user_id":"` + u.ID + `"`
		if rest := strings.TrimPrefix(string(text), "{"); rest != "}" {
			line += ","
			settings.WriteString(line + rest + "\n")
		} else {
			settings.WriteString(line + "}\n")
		}
	}
	folder := t.TempDir()
	events, preferences = filepath.Join(folder, "events.ndjson"), filepath.Join(folder, "users.ndjson")
	for path, text := range map[string][]byte{events: posted.Bytes(), preferences: settings.Bytes()} {
		must.OK(t, os.WriteFile(path, text, 0o600))
	}
	return events, preferences, week
}

// left is what a run leaves behind.
type left struct {
	records map[string][]string // by user, in the order of seq, without decision_id
	sent    map[uuid.UUID]string
	repeats int
}

// kill -9 of `keyfold-lite notify --events FILE` at random moments, and the same
// command again until it ends: the records are those of an uninterrupted run, and
// each NOW is handed over under one id.
//
// Promise(proof/notify-lite): `keyfold-lite notify --events FILE` under kill -9 decides everything
// once, with the records of a run without kills.
// Figure: 1,000 kills: 0 lost, 0 decided twice
func TestNotifyKill9(t *testing.T) {
	t.Parallel()
	events, users, _ := weekFiles(t, often(6, 12))
	args := func(folder string) []string {
		return []string{"notify", "--data", filepath.Join(folder, "data"), "--events", events, "--users", users, "--send-to", filepath.Join(folder, "out.ndjson")}
	}
	whole := t.TempDir()
	began := time.Now()
	if out, err := asProcess(args(whole)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := time.Since(began)
	want := readLeft(t, whole)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for kills := 0; kills < often(4, 1000); {
		folder := t.TempDir()
		for range 4 {
			if !killedAt(t, time.Duration(r.Int64N(int64(took))), args(folder)...) {
				break
			}
			kills++
		}
		if out, err := asProcess(args(folder)...).CombinedOutput(); err != nil {
			t.Fatalf("the run after the kills: %v: %s", err, out)
		}
		compareLeft(t, readLeft(t, folder), want)
		if t.Failed() {
			return
		}
	}
}

func asProcess(args ...string) *exec.Cmd {
	program := exec.Command(os.Args[0], args...)
	program.Env = append(os.Environ(), asProgram+"=1")
	return program
}

// killedAt starts the program and kills it after a while. It reports whether it was
// running then.
func killedAt(t *testing.T, after time.Duration, args ...string) bool {
	t.Helper()
	program := asProcess(args...)
	var errs bytes.Buffer
	program.Stderr = &errs
	must.OK(t, program.Start())
	timer := time.AfterFunc(after, func() { _ = program.Process.Kill() })
	defer timer.Stop()
	err := program.Wait()
	if err == nil {
		return false
	}
	if !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%v: %s", err, errs.String())
	}
	return true
}

func readLeft(t *testing.T, folder string) left {
	t.Helper()
	l := left{records: map[string][]string{}, sent: map[uuid.UUID]string{}}
	for _, r := range recordsOf(t, filepath.Join(folder, "data")) {
		r.DecisionID = uuid.Nil
		text, err := r.MarshalJSON()
		must.OK(t, err)
		l.records[r.UserID] = append(l.records[r.UserID], string(text))
	}
	text, err := os.ReadFile(filepath.Join(folder, "out.ndjson"))
	must.OK(t, err)
	for line := range bytes.Lines(text) {
		var m message.Message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		same, ok := l.sent[m.DispatchID]
		if ok && same != string(line) {
			t.Errorf("dispatch %s came as\n%s\nand as\n%s", m.DispatchID, same, line)
		}
		if ok {
			l.repeats++
		}
		l.sent[m.DispatchID] = string(line)
	}
	return l
}

// recordsOf returns all records of a folder, in the order of seq for each user.
func recordsOf(t *testing.T, data string) (all []notify.Record) {
	t.Helper()
	file, err := openDecisions(&app{data: data})
	must.OK(t, err)
	defer file.Close()
	for d, err := range file.Records(t.Context(), ledger.Filter{}) {
		must.OK(t, err)
		all = append(all, d.Record)
	}
	slices.SortStableFunc(all, func(a, b notify.Record) int { return int(a.Seq - b.Seq) })
	return all
}

func compareLeft(t *testing.T, got, want left) {
	t.Helper()
	for user, records := range want.records {
		if !slices.Equal(got.records[user], records) {
			at := 0
			for at < min(len(records), len(got.records[user])) && records[at] == got.records[user][at] {
				at++
			}
			t.Errorf("user %s: %d records, want %d; they differ from record %d on: %s", user, len(got.records[user]), len(records), at,
				firstDifference(got.records[user], records))
			return
		}
	}
	if len(got.records) != len(want.records) || len(got.sent) != len(want.sent) {
		t.Errorf("%d users and %d dispatches, want %d and %d", len(got.records), len(got.sent), len(want.records), len(want.sent))
	}
	for id := range want.sent {
		if got.sent[id] == "" {
			t.Errorf("dispatch %s is missing", id)
			return
		}
	}
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return "\n" + got[i] + "\nwant\n" + want[i]
		}
	}
	return "one is the beginning of the other"
}

// What a run leaves behind keeps the laws, as the oracle knows them.
//
// Promise(proof/notify-lite)
func TestNotifyKeepsTheLaws(t *testing.T) {
	t.Parallel()
	events, users, week := weekFiles(t, 30)
	folder := t.TempDir()
	code, _, errs := lite(t, "", "notify", "--data", filepath.Join(folder, "data"), "--events", events, "--users", users, "--send-to", filepath.Join(folder, "out.ndjson"))
	if code != 0 {
		t.Fatal(errs)
	}
	set, err := ruleset.Read("", mustLocal(t))
	must.OK(t, err)
	reference, err := notifyoracle.NewSet(set, rule.Default())
	must.OK(t, err)
	run := notifyoracle.Run{Records: recordsOf(t, filepath.Join(folder, "data")), Sets: map[string]*notifyoracle.Set{set.Version: reference}, States: map[string]*notify.State{}}
	seen := map[uuid.UUID]bool{}
	for i := range week.Events {
		event, err := notify.Parse(week.Events[i].Body, engine.Now())
		must.OK(t, err)
		if !seen[event.ID] {
			seen[event.ID] = true
			event.Print = set.Policy.Print(event)
			run.Events = append(run.Events, event)
		}
	}
	decidedAt := map[uuid.UUID]engine.Millis{}
	for i := range run.Records {
		r := &run.Records[i]
		decidedAt[r.DecisionID] = r.DecidedAt
		run.End = max(run.End, r.DecidedAt)
	}
	run.End++
	for _, line := range readLeft(t, folder).sent {
		var m message.Message
		must.OK(t, json.Unmarshal([]byte(line), &m))
		run.Sent = append(run.Sent, notifyoracle.Sent{ID: m.DispatchID, Events: m.EventIDs, At: decidedAt[m.DecisionID]})
	}
	for user := range statesOf(t, filepath.Join(folder, "data"), run.States, &week) {
		t.Errorf("user %s has no state", user)
	}
	for _, violation := range slices.Concat(notifyoracle.Check(&run), notifyoracle.Replay(&run)) {
		t.Error(violation)
		if t.Failed() && len(violation.Text) > 0 {
			break
		}
	}
}

func mustLocal(t *testing.T) notify.Local {
	t.Helper()
	local, err := (&ruleset.Hours{Zone: "UTC", Morning: "08:00", Digests: "09:00,18:00"}).Local()
	must.OK(t, err)
	return local
}

// statesOf reads the states of a week's users. It returns those who have records and
// no state.
func statesOf(t *testing.T, data string, states map[string]*notify.State, week *notifications.Week) map[string]bool {
	t.Helper()
	file, err := openDecisions(&app{data: data})
	must.OK(t, err)
	defer file.Close()
	missing := map[string]bool{}
	for i := range week.Events {
		user := week.Events[i].User
		if states[user] != nil || missing[user] {
			continue
		}
		standings, err := file.Load(t.Context(), []notify.Ask{{User: user}})
		must.OK(t, err)
		if states[user] = standings[0].State; states[user] == nil {
			missing[user] = true
		}
	}
	return missing
}

// The decisions of a file do not depend on shards, on how much is held at once, nor
// on how often the run was begun.
func TestNotifyDoesNotDependOnShards(t *testing.T) {
	t.Parallel()
	events, users, _ := weekFiles(t, 6)
	var want left
	for i, flags := range [][]string{{"--shards", "1"}, {"--shards", "7", "--prefetch", "5"}, {"--shards", "2", "--prefetch", "300"}} {
		folder := t.TempDir()
		args := append([]string{"--data", filepath.Join(folder, "data"), "--events", events, "--users", users, "--send-to", filepath.Join(folder, "out.ndjson")}, flags...)
		notified(t, "", args...)
		got := readLeft(t, folder)
		if i == 0 {
			want = got
		}
		compareLeft(t, got, want)
		if got.repeats > 0 {
			t.Errorf("%v: %d dispatches came twice", flags, got.repeats)
		}
	}
}
