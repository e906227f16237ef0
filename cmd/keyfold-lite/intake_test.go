package main

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// stored opens the outbox of a data folder.
func stored(t *testing.T, data string) *outbox.Database {
	t.Helper()
	file := url.URL{Scheme: "sqlite", Path: filepath.Join(data, outboxName)}
	db, err := outbox.Open(file.String())
	must.OK(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// allSent checks that so many rows are stored and that each is marked.
func allSent(t *testing.T, data string, want int) {
	t.Helper()
	db := stored(t, data)
	all, err := db.Count(t.Context(), outbox.Filter{})
	must.OK(t, err)
	sent, err := db.Count(t.Context(), outbox.Filter{Sent: outbox.OnlySent})
	if err != nil || all != int64(want) || sent != all {
		t.Errorf("%d rows, %d of them marked as sent, want %d (%v)", all, sent, want, err)
	}
}

// distinct counts events: the sample repeats some.
func distinct(t *testing.T, lines [][]byte) int {
	t.Helper()
	ids := map[string]bool{}
	for _, line := range lines {
		e, err := profile.ParseEvent(line, time.Now())
		must.OK(t, err)
		ids[e.MessageID] = true
	}
	return len(ids)
}

// process is a serving keyfold-lite that can be killed.
func process(t *testing.T, args ...string) (url string, kill func()) {
	t.Helper()
	program := exec.Command(os.Args[0], append([]string{"serve", "--http-addr", "127.0.0.1:0"}, args...)...)
	program.Env = append(os.Environ(), asProgram+"=1")
	stderr, err := program.StderrPipe()
	must.OK(t, err)
	must.OK(t, program.Start())
	kill = sync.OnceFunc(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	t.Cleanup(kill)
	lines, said := bufio.NewReader(stderr), ""
	for listening := regexp.MustCompile(`http://[0-9.]+:[0-9]+`); ; {
		line, err := lines.ReadString('\n')
		said += line
		if url := listening.FindString(line); url != "" {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return url, kill
		}
		if err != nil {
			t.Fatalf("it does not listen: %s", said)
		}
	}
}

// send posts a line and reports whether it was answered with 202.
func send(url string, line []byte) bool {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(url+"/v1/events", "application/json", bytes.NewReader(line))
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusAccepted
}

// kill -9 while posts come in: what was answered is there afterwards, what was
// not is sent again, and at the end every profile is the oracle's and every row
// is marked.
//
// Promise(lite/killed, shutdown/lite)
func TestKill9WhilePosting(t *testing.T) {
	lines := eventLines(t, often(15, 40))
	data := filepath.Join(t.TempDir(), "data")
	args := []string{small, "--data", data, "--products", shopFile(t), "--batch-window=100ms", "--batch-max-delay=200ms"}
	runs := 0
	for left := lines; len(left) > 0; runs++ {
		url, kill := process(t, args...)
		accepted := min(len(left), 20+rand.IntN(80))
		for _, line := range left[:accepted] {
			if !send(url, line) {
				t.Fatalf("%s was not accepted", line)
			}
		}
		left = left[accepted:]
		var unanswered sync.WaitGroup // as a rule
		if len(left) > 0 {
			unanswered.Go(func() { send(url, left[0]) })
		}
		kill()
		unanswered.Wait()
	}
	t.Logf("%d events in %d runs, each killed", len(lines), runs)
	fold(t, string(lines[0]), small, "--data", data, "--events", "-")
	equalsOracle(t, data, lines)
	allSent(t, data, distinct(t, lines))
	// Each kill met posts before and after their bodies were deleted: the history
	// makes the same profiles, and the inbox keeps no body.
	equalsOracle(t, data, postedBodies(t, data))
	if kept := len(inboxBodies(t, data)); kept != 0 {
		t.Errorf("the inbox keeps %d bodies of settled posts", kept)
	}
}

// What was stored and not relayed by an earlier process is folded by the next
// one, also by a job that serves nothing.
//
// Promise(shutdown/lite)
func TestPostsLeftBehind(t *testing.T) {
	lines := eventLines(t, 40)
	data := filepath.Join(t.TempDir(), "data")
	must.OK(t, os.Mkdir(data, 0o750))
	db := stored(t, data)
	must.OK(t, db.Setup(t.Context(), outbox.SetupOptions{}))
	store := outbox.NewStore(db, outbox.StoreConfig{})
	for some := range slices.Chunk(lines, 7) {
		var entries []profile.Entry
		for _, body := range some {
			e, err := profile.ParseEvent(body, time.Now())
			must.OK(t, err)
			entries = append(entries, profile.Entry{Body: body, Event: e})
		}
		if _, err := store.Add(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
	}
	must.OK(t, store.Close(t.Context()))
	const extra = `{"user_id":1,"event_type":"search","search_phrase":"tent","occurred_at":"2026-02-10T15:00:00Z","message_id":"last"}`
	s := fold(t, extra, small, "--data", data, "--products", shopFile(t), "--events", "-")
	if rows := int64(distinct(t, lines)); s.Recovered != rows || s.Events != 1 || s.Folded != rows+1 {
		t.Errorf("%+v, want the %d rows recovered", s, rows)
	}
	equalsOracle(t, data, append(lines, []byte(extra)))
	allSent(t, data, distinct(t, lines))
	if again := fold(t, strings.Repeat(extra+"\n", 2), small, "--data", data, "--events", "-"); again.Recovered != 0 || again.Folded != 0 {
		t.Errorf("a second run: %+v", again)
	}
}
