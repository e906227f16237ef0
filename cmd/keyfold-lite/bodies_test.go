package main

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/users"
	"keyfold/source/outbox"
)

// inboxBodies reads the bodies that the inbox holds, by their user.
func inboxBodies(t *testing.T, data string) (bodies [][]byte) {
	t.Helper()
	file, err := openFile(&app{data: data})
	must.OK(t, err)
	defer file.Close()
	rows, err := file.QueryContext(t.Context(), "SELECT body FROM pending_bodies UNION ALL SELECT body FROM inbox WHERE body <> x''")
	must.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var body []byte
		must.OK(t, rows.Scan(&body))
		bodies = append(bodies, body)
	}
	must.OK(t, rows.Err())
	return bodies
}

// postedBodies reads the bodies of the history.
func postedBodies(t *testing.T, data string) (bodies [][]byte) {
	t.Helper()
	for row, err := range stored(t, data).History(t.Context(), outbox.Filter{}, outbox.Position{}) {
		must.OK(t, err)
		bodies = append(bodies, row.Body)
	}
	return bodies
}

// What was posted is kept once, in the history, once it is folded; what came from
// a file is kept in the inbox. Both together make every profile again, and a
// user's last events are read from both.
//
// Promise(lite/killed)
func TestBodiesOfSettledPosts(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	lines := eventLines(t, 25)
	data := filepath.Join(t.TempDir(), "data")
	half := len(lines) / 2
	file := bytes.Join(lines[:half], []byte("\n"))
	fold(t, string(file), small, "--data", data, "--products", shopFile(t), "--events", "-")
	args := []string{small, "--data", data, "--batch-window=50ms", "--batch-max-delay=100ms"}
	// The posts overlap with the file: the inbox keeps the file's bodies.
	posts := lines[half-20:]
	url, stop := server(t, args...)
	for _, line := range posts {
		if code, answer := post(t, url, string(line)); code != http.StatusAccepted {
			t.Fatalf("%d %s", code, answer)
		}
	}
	stop()
	kept := inboxBodies(t, data)
	if want := distinct(t, lines[:half]); len(kept) != want {
		t.Errorf("the inbox keeps %d bodies, want the %d of the file", len(kept), want)
	}
	equalsOracle(t, data, lines)
	equalsOracle(t, data, append(kept, postedBodies(t, data)...))

	url, stop = server(t, args...)
	for _, line := range posts[:40] {
		if _, answer := post(t, url, string(line)); !strings.Contains(answer, `"duplicate":1`) {
			t.Errorf("posted again: %s", answer)
		}
	}
	stop()
	if s := fold(t, string(file)+"\n"+string(posts[len(posts)-1]), append(args, "--events", "-")...); s.Folded != 0 || s.Duplicate != int64(half+1) {
		t.Errorf("read again: %+v", s)
	}
	equalsOracle(t, data, lines)

	want := map[string]profile.Event{}
	for _, line := range lines {
		e, err := profile.ParseEvent(line, engine.Millis(1<<50).Time())
		must.OK(t, err)
		want[e.MessageID] = e
	}
	reader, err := openFile(&app{data: data})
	must.OK(t, err)
	defer reader.Close()
	look := func(check func(users.Event) bool) {
		t.Helper()
		seen := 0
		for user := range exported(t, data) {
			events, err := lastEvents(t.Context(), &app{data: data}, reader, user, 1000)
			must.OK(t, err)
			for _, e := range events {
				seen++
				if e.State != "folded" || !check(e) {
					t.Errorf("%+v, want %+v", e, want[e.MessageID])
				}
			}
		}
		if seen != len(want) {
			t.Errorf("%d events, want %d", seen, len(want))
		}
	}
	look(func(e users.Event) bool { return e.Event == want[e.MessageID] })

	// What `keyfold history prune` deletes is gone, the event and its verdict are not.
	db := stored(t, data)
	if deleted, err := db.Prune(t.Context(), engine.Now()+engine.Millis(1000), outbox.CleanupOptions{}); err != nil || deleted == 0 {
		t.Fatalf("%d pruned, %v", deleted, err)
	}
	cleaned := 0
	look(func(e users.Event) bool {
		full := want[e.MessageID]
		if e.ProductID == 0 && e.Phrase == "" {
			cleaned++
			full.ProductID, full.Phrase = 0, ""
		}
		return e.Event == full
	})
	if cleaned != len(want)-len(kept) {
		t.Errorf("%d events without a body, want %d", cleaned, len(want)-len(kept))
	}
	last, err := profile.ParseEvent(posts[len(posts)-1], engine.Millis(1<<50).Time())
	must.OK(t, err)
	_, out, _ := lite(t, "", "user", "show", fmt.Sprint(last.UserID), "--data", data)
	if !strings.Contains(out, "(deleted by history prune)") {
		t.Errorf("user show: %s", out)
	}
}
