package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/api"

	"keyfold/engine/notify"
	"keyfold/source/httpapi"
)

// notifyServer runs `notify serve` until the test ends, and returns its address.
func notifyServer(t *testing.T, args ...string) string {
	t.Helper()
	address, _ := notifyServing(t, args...)
	return address
}

// notifyServing returns the address and what the program says.
func notifyServing(t *testing.T, args ...string) (string, *logtest.Buffer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	errs := &logtest.Buffer{}
	done := make(chan int, 1)
	args = append([]string{"notify", "serve", "--http-addr", "127.0.0.1:0"}, args...)
	go func() {
		done <- run(ctx, args, cli.Streams{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: errs})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
		http.DefaultClient.CloseIdleConnections()
	})
	address := regexp.MustCompile(`listening on (http://[^:]+:\d+)`)
	for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(5 * time.Millisecond) {
		if found := address.FindStringSubmatch(errs.String()); found != nil {
			return found[1], errs
		}
		if len(done) > 0 {
			t.Fatal(errs.String())
		}
	}
	t.Fatalf("it does not serve: %s", errs.String())
	return "", nil
}

// A replay decides what waits at its own time, which may be ahead of the clock: one
// who serves on the same folder is told.
func TestNotifyServeOnAReplaysFolder(t *testing.T) {
	folder := t.TempDir()
	rules := writeFile(t, "rules.json", `{"version":"1","rules":[{"rule_id":"6b657966-6f6c-4d00-8000-0000000000aa","name":"mornings","priority":1,"version":"1.0.0",
		"enabled":true,"conditions":{"field":"turn","operator":"eq","value":0},"action":{"outcome":"LATER","defer_strategy":"next_morning","reason_code":"MORNINGS"}}]}`)
	line := nowEvent(uuid.New(), "17", "UPDATE", "x")
	if s := notified(t, line, "--data", folder, "--events", "-", "--rules", rules); s.Decisions != 2 {
		t.Fatalf("%+v", s)
	}
	const warning = "decisions of 1 user that lie ahead of the clock"
	if _, errs := notifyServing(t, "--data", folder); !strings.Contains(errs.String(), warning) {
		t.Errorf("it says %s", errs.String())
	}
	if _, errs := notifyServing(t, "--data", t.TempDir()); strings.Contains(errs.String(), "ahead") {
		t.Errorf("of an empty folder it says %s", errs.String())
	}
}

// asked makes a request and reads the JSON answer.
func asked(t *testing.T, method, url, kind, body string, into any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must.OK(t, err)
	r.Header.Set("Content-Type", kind)
	answer, err := http.DefaultClient.Do(r)
	must.OK(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer.StatusCode
}

// nowEvent is an event of this moment.
func nowEvent(id uuid.UUID, user, kind, title string) string {
	return fmt.Sprintf(`{"event_id":%q,"user_id":%q,"event_type":%q,"title":%q,"source":"test","channel":["push"],"timestamp":%q}`,
		id, user, kind, title, time.Now().UTC().Format(time.RFC3339))
}

type decided struct {
	Decisions []api.Decision `json:"decisions"`
	Errors    []httpapi.Fault
}

// A POST is answered with the decisions, once they are stored and handed over. A
// repeat gets the first decision again, also of another process.
func TestNotifyServe(t *testing.T) {
	data, sent := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "out.ndjson")
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	one := nowEvent(ids[0], "17", "SECURITY", "Your code is 1")
	many := nowEvent(ids[1], "17", "SECURITY", "Your code is 2") + "\n" + nowEvent(ids[2], "18", "SECURITY", "Your code is 3") + "\n"
	var first decided
	t.Run("one process", func(t *testing.T) {
		server := notifyServer(t, "--data", data, "--send-to", sent)
		if status := asked(t, "POST", server+"/v1/notifications", "application/json", one, &first); status != 200 || len(first.Decisions) != 1 {
			t.Fatalf("status %d: %+v", status, first)
		}
		if d := first.Decisions[0]; d.EventID != ids[0] || d.Outcome.String() != "NOW" || d.HandedOver == nil || !*d.HandedOver || d.Repeat {
			t.Errorf("%+v", d)
		}
		if text, err := os.ReadFile(sent); err != nil || !strings.Contains(string(text), ids[0].String()) {
			t.Errorf("it is answered and was not handed over: %s, %v", text, err)
		}
		var second decided
		if status := asked(t, "POST", server+"/v1/notifications", "application/x-ndjson", many, &second); status != 200 || len(second.Decisions) != 2 || second.Decisions[1].EventID != ids[2] {
			t.Errorf("status %d: %+v", status, second)
		}
		var array decided
		if status := asked(t, "POST", server+"/v1/notifications", "application/json", "["+one+"]", &array); status != 200 || !array.Decisions[0].Repeat {
			t.Errorf("status %d: %+v", status, array)
		}
		var stolen decided
		if status := asked(t, "POST", server+"/v1/notifications", "application/json", nowEvent(ids[0], "99", "SECURITY", "x"), &stolen); status != 409 || stolen.Errors[0].Field != "event_id" || stolen.Errors[0].Reason != notify.ReasonAnotherUser {
			t.Errorf("another user's event_id: status %d: %+v", status, stolen)
		}
	})
	server := notifyServer(t, "--data", data, "--send-to", sent)
	var again decided
	asked(t, "POST", server+"/v1/notifications", "application/json", one, &again)
	if d := again.Decisions[0]; !d.Repeat || d.DecisionID != first.Decisions[0].DecisionID {
		t.Errorf("the next process: %+v", d)
	}
	if text, _ := os.ReadFile(sent); strings.Count(string(text), `"dispatch_id"`) != 3 {
		t.Errorf("handed over:\n%s", text)
	}
	var turns struct{ Turns []api.Explained }
	if status := asked(t, "GET", server+"/v1/notifications/"+ids[0].String(), "", "", &turns); status != 200 || len(turns.Turns) != 1 || len(turns.Turns[0].Lines) == 0 {
		t.Errorf("status %d: %+v", status, turns)
	}
	for path, want := range map[string]int{"/v1/notifications/" + uuid.New().String(): 404, "/v1/notifications/x": 400, "/v1/events": 404, "/openapi.json": 404, "/livez": 200, "/readyz": 200} {
		if status := asked(t, "GET", server+path, "", "", nil); status != want {
			t.Errorf("GET %s: %d, want %d", path, status, want)
		}
	}
	if status := asked(t, "DELETE", server+"/v1/notifications", "", "", nil); status != 405 {
		t.Errorf("DELETE: %d", status)
	}
}

// A notification that no sender takes is decided: each POST of it is answered with
// that decision.
func TestNotifyServeTellsOfAFailedHandOver(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer receiver.Close()
	server := notifyServer(t, "--data", filepath.Join(t.TempDir(), "data"), "--webhook", receiver.URL)
	one := nowEvent(uuid.New(), "17", "SECURITY", "Your code is 1")
	for post := range 2 {
		var got decided
		if status := asked(t, "POST", server+"/v1/notifications", "application/json", one, &got); status != 200 || len(got.Decisions) != 1 {
			t.Fatalf("POST %d: status %d: %+v", post, status, got)
		}
		if d := got.Decisions[0]; d.HandedOver == nil || *d.HandedOver || d.Error == "" || d.Repeat != (post == 1) {
			t.Errorf("POST %d: %+v", post, d)
		}
	}
}

// Preferences are put, read and kept to.
func TestNotifyServePreferences(t *testing.T) {
	server := notifyServer(t, "--data", filepath.Join(t.TempDir(), "data"))
	url := server + "/v1/users/a%2Fb%20c/preferences"
	var back map[string]any
	if status := asked(t, "PUT", url, "application/json", `{"muted":["UPDATE"]}`, &back); status != 200 {
		t.Fatalf("status %d: %v", status, back)
	}
	if status := asked(t, "GET", url, "", "", &back); status != 200 || len(back["muted"].([]any)) != 1 {
		t.Errorf("status %d: %v", status, back)
	}
	var d decided
	asked(t, "POST", server+"/v1/notifications", "application/json", nowEvent(uuid.New(), "a/b c", "UPDATE", "x"), &d)
	if d.Decisions[0].Reasons[0] != "MUTED" {
		t.Errorf("%+v", d)
	}
	var refused decided
	if status := asked(t, "PUT", url, "application/json", `{"zone":"Mars","muted":["NEWS"],"more":1}`, &refused); status != 400 || len(refused.Errors) < 3 {
		t.Errorf("status %d: %+v", status, refused)
	}
	for body, field := range map[string]string{
		`{"channels":[""]}`: "channels", `{"channels":["push",null]}`: "channels", `{"muted":[""]}`: "muted",
		`{"caps":[1,2]}`: "caps", `{"caps":[1,2,3,4]}`: "caps", `null`: "", `{"muted":["PROMO","SECURITY"]}`: "muted",
	} {
		refused = decided{}
		if status := asked(t, "PUT", url, "application/json", body, &refused); status != 400 || len(refused.Errors) != 1 || refused.Errors[0].Field != field {
			t.Errorf("%s: status %d: %+v", body, status, refused)
		}
	}
	if status := asked(t, "PUT", url, "text/plain", `{}`, nil); status != 415 {
		t.Errorf("text/plain: %d", status)
	}
	if status := asked(t, "POST", url, "application/json", `{}`, nil); status != 405 {
		t.Errorf("POST: %d", status)
	}
}

// All faults of a request are named with field and reason, and nothing is decided.
func TestNotifyServeNamesEveryFault(t *testing.T) {
	server := notifyServer(t, "--data", filepath.Join(t.TempDir(), "data"))
	good := uuid.New()
	var refused decided
	body := "[" + nowEvent(good, "17", "SECURITY", "x") + `,{"event_id":"x","user_id":"","event_type":"NEWS","title":5,"channel":["fax"],"timestamp":"yesterday","priority_hint":"SOON","dedupe_key":[],"metadata":"x"}]`
	if status := asked(t, "POST", server+"/v1/notifications", "application/json", body, &refused); status != 400 {
		t.Fatalf("status %d: %+v", status, refused)
	}
	fields := map[string]bool{}
	for _, f := range refused.Errors {
		if f.Index == nil || *f.Index != 1 || f.Reason == "" || f.Error == "" {
			t.Errorf("%+v", f)
		}
		fields[f.Field] = true
	}
	for _, field := range []string{"event_id", "user_id", "event_type", "title", "source", "channel", "timestamp", "priority_hint", "dedupe_key", "metadata"} {
		if !fields[field] {
			t.Errorf("no fault of %s in %+v", field, refused.Errors)
		}
	}
	if status := asked(t, "POST", server+"/v1/notifications?partial=true", "application/json", body, &refused); status != 400 || refused.Errors[0].Reason != "bad_parameter" {
		t.Errorf("partial: %d %+v", status, refused)
	}
	if status := asked(t, "GET", server+"/v1/notifications/"+good.String(), "", "", nil); status != 404 {
		t.Errorf("the good one was decided: %d", status)
	}
}

// 2,000 hostile bodies: each is answered, none ends the server.
func TestNotifyServeHostileBodies(t *testing.T) {
	server := notifyServer(t, "--data", filepath.Join(t.TempDir(), "data"))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		body := []byte(nowEvent(uuid.New(), "17", "UPDATE", "x"))
		switch i % 6 {
		case 0: // a byte is another one
			body[r.IntN(len(body))] = byte(r.Uint32())
		case 1: // cut off
			body = body[:r.IntN(len(body))]
		case 2: // a piece twice
			at := r.IntN(len(body))
			body = append(body[:at:at], body...)
		case 3: // bytes of no meaning
			body = make([]byte, r.IntN(200))
			for j := range body {
				body[j] = byte(r.Uint32())
			}
		case 4: // deep
			body = bytes.Repeat([]byte(`{"metadata":[`), 1+r.IntN(3000))
		case 5: // a title of any characters
			body = bytes.Replace(body, []byte(`"x"`), []byte(`"\u0000\ud800`+strings.Repeat("é", r.IntN(200))+`"`), 1)
		}
		var answer struct {
			Decisions []api.Decision  `json:"decisions"`
			Errors    []httpapi.Fault `json:"errors"`
		}
		kind := []string{"application/json", "application/x-ndjson"}[r.IntN(2)]
		status := asked(t, "POST", server+"/v1/notifications", kind, string(body), &answer)
		ok := status == 200 && len(answer.Decisions) > 0
		for _, f := range answer.Errors {
			ok = ok || status >= 400 && status < 500 && f.Reason != "" && f.Error != ""
		}
		if !ok {
			t.Fatalf("%q: %d %+v", body, status, answer)
		}
	}
	if status := asked(t, "GET", server+"/readyz", "", "", nil); status != 200 {
		t.Errorf("readyz: %d", status)
	}
}
