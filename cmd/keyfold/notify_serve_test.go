package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/service/notify/broker"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/postgres"
)

// service runs `keyfold notify` with these arguments until the test's end.
func (s *notifyStack) service(t *testing.T, args ...string) *daemon {
	t.Helper()
	return startDaemon(t, slices.Concat([]string{"notify"}, args, []string{"--rabbitmq-dsn=" + s.dsn, "--notify-database-url=" + s.database, "--admin-addr=127.0.0.1:0"})...)
}

var notifyListening = regexp.MustCompile(`"notify serve listening","url":"(http://[^/"]+)/`)

// call asks the API of notifications.
func (d *daemon) call(method, path, prefer, body string, into any) (int, http.Header) {
	d.t.Helper()
	var at []string
	eventually(d.t, "the API listens", func() error {
		if at = notifyListening.FindStringSubmatch(d.log.String()); at == nil {
			return errors.New(d.log.String())
		}
		return nil
	})
	r, err := http.NewRequest(method, at[1]+path, strings.NewReader(body))
	must.OK(d.t, err)
	r.Header.Set("Content-Type", "application/json")
	if prefer != "" {
		r.Header.Set("Prefer", prefer)
	}
	answer, err := sender.Do(r)
	must.OK(d.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		d.t.Fatalf("%s: %v", text, err)
	}
	return answer.StatusCode, answer.Header
}

// notified is every answer to a POST of notifications.
type notified struct {
	Accepted  int         `json:"accepted"`
	Duplicate int         `json:"duplicate"`
	EventIDs  []uuid.UUID `json:"event_ids"`
	Decisions []struct {
		EventID    uuid.UUID `json:"event_id"`
		DecisionID uuid.UUID `json:"decision_id"`
		Outcome    string    `json:"outcome"`
		Repeat     bool      `json:"repeat"`
	} `json:"decisions"`
	Errors []struct{ Reason, Error string } `json:"errors"`
}

// urgentTime is the time of all urgent notifications: one that is posted again is the same event, also after the
// turn of a minute.
var urgentTime = time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)

// urgentNow is a notification that the shipped rules send at once.
func urgentNow(id uuid.UUID, user, title string) string {
	return fmt.Sprintf(`{"event_id":%q,"user_id":%q,"event_type":"SECURITY","title":%q,"source":"test","channel":["push"],"timestamp":%q}`,
		id, user, title, urgentTime)
}

// decisionsOf counts the records of each event.
func (s *notifyStack) decisionsOf(t *testing.T) map[uuid.UUID]int {
	t.Helper()
	store, err := postgres.Open(s.database, 1)
	must.OK(t, err)
	defer store.Close()
	all := map[uuid.UUID]int{}
	for d, err := range store.Records(t.Context(), ledger.Filter{}) {
		must.OK(t, err)
		all[d.Record.EventID]++
	}
	return all
}

// A notification that is posted is decided, dispatched and read again; a second POST of
// it is a duplicate, and a delivery report is shown with it. What `notify send`
// publishes twice is decided once.
//
// Promise(api/posted, api/repeated)
func TestNotifyServeAndSend(t *testing.T) {
	s := newNotifyStack(t)
	if code, _, errs := s.run(t, "setup"); code != 0 {
		t.Fatal(errs)
	}
	api := s.service(t, "serve", "--http-addr=127.0.0.1:0").ready()
	s.service(t, "work").ready()
	id := uuid.New()
	one := urgentNow(id, "17", "Your code is 1")
	p := api.waited(one)
	if p.Decisions[0].Outcome != "NOW" {
		t.Fatalf("%+v", p)
	}
	decision := p.Decisions[0].DecisionID
	p = notified{}
	if status, _ := api.call("POST", "/v1/notifications", "", "["+one+","+urgentNow(uuid.New(), "18", "Your code is 2")+"]", &p); status != 202 || p.Accepted != 1 || p.Duplicate != 1 || p.EventIDs[0] != id {
		t.Errorf("%d %+v", status, p)
	}
	if status, _ := api.call("POST", "/v1/notifications", "", urgentNow(id, "99", "Your code is 1"), &p); status != 409 || p.Errors[0].Reason != notify.ReasonAnotherUser {
		t.Errorf("another user: %d %+v", status, p)
	}
	report := fmt.Sprintf(`{"event_id":%q,"status":"DELIVERED","channel":"push","at":%q}`, id, time.Now().UTC().Format(time.RFC3339))
	if status, _ := api.call("POST", "/v1/deliveries", "", report, nil); status != 200 {
		t.Errorf("report: %d", status)
	}
	var read struct {
		Delivery notify.Delivery `json:"delivery"`
		Lines    []string        `json:"explanation"`
	}
	if status, _ := api.call("GET", "/v1/decisions/"+decision.String(), "", "", &read); status != 200 || read.Delivery.Status != notify.Delivered || len(read.Lines) == 0 {
		t.Errorf("%d %+v", status, read)
	}
	for path, want := range map[string]int{"/v1/notifications/" + id.String(): 200, "/v1/users/17/decisions": 200, "/v1/users/17/preferences": 200, "/openapi.json": 200, "/readyz": 200} {
		if status, _ := api.call("GET", path, "", "", nil); status != want {
			t.Errorf("GET %s: %d", path, status)
		}
	}

	var lines bytes.Buffer
	const many = 1100 // chunks
	for i := range many {
		fmt.Fprintln(&lines, urgentNow(uuid.NewSHA1(id, fmt.Append(nil, i)), fmt.Sprint("user-", i%50), fmt.Sprint("Your code is ", i)))
	}
	file := filepath.Join(t.TempDir(), "week.ndjson")
	must.OK(t, os.WriteFile(file, lines.Bytes(), 0o600))
	for range 2 {
		var sent struct{ Published, Refused int }
		code, out, errs := s.run(t, "send", file, "-o", "json")
		if err := json.Unmarshal([]byte(out), &sent); code != 0 || err != nil || sent.Published != many || sent.Refused != 0 {
			t.Fatalf("%d %s%s", code, out, errs)
		}
	}
	eventually(t, "all are decided", func() error {
		if n := len(s.decisionsOf(t)); n != many+2 {
			return fmt.Errorf("%d of %d", n, many+2)
		}
		return nil
	})
	for event, n := range s.decisionsOf(t) {
		if n != 1 {
			t.Errorf("event %s has %d decisions", event, n)
		}
	}
	eventually(t, "each is dispatched once", func() error {
		depths, err := rabbittest.Shared(t).Depths(s.vhost)
		if n := depths[broker.DispatchQueue(notify.Push)]; err != nil || n != many+2 {
			return fmt.Errorf("%d of %d: %w", n, many+2, err)
		}
		return nil
	})
}

// Without its queues the broker takes nothing: requests are answered with 503, and the
// log names the command that makes them; then they are taken.
//
// Promise(api/no-queues)
func TestNotifyServeWithoutQueues(t *testing.T) {
	s := newNotifyStack(t)
	store, err := postgres.Open(s.database, 1)
	if err == nil {
		err = errors.Join(store.Setup(t.Context()), store.Close())
	}
	must.OK(t, err)
	api := s.service(t, "serve", "--http-addr=127.0.0.1:0")
	one := urgentNow(uuid.New(), "17", "Your code is 1")
	var p notified
	status, header := api.call("POST", "/v1/notifications", "", one, &p)
	if status != 503 || header.Get("Retry-After") == "" || p.Errors[0].Reason != "broker_not_set_up" || !strings.Contains(api.log.String(), "run `keyfold notify setup`") {
		t.Errorf("%d %+v\n%s", status, p, api.log)
	}
	if status, _ := api.call("GET", "/readyz", "", "", nil); status != 503 {
		t.Errorf("ready: %d", status)
	}
	if code, _, errs := s.run(t, "send", writeNotifications(t, one)); code != 1 || !strings.Contains(errs, "run `keyfold notify setup`") {
		t.Errorf("send: %d %s", code, errs)
	}
	if code, _, errs := s.run(t, "setup"); code != 0 {
		t.Fatal(errs)
	}
	if status, _ := api.call("POST", "/v1/notifications", "", one, &p); status != 202 {
		t.Errorf("set up: %d %+v\n%s", status, p, api.log)
	}
}

// The broker may be away when the API starts: it answers with 503 and keeps nothing. A
// database that is not set up ends the start.
//
// Promise(api/unconfirmed)
func TestNotifyServeWithoutServers(t *testing.T) {
	s := newNotifyStack(t)
	if code, _, errs := s.run(t, "serve", "--http-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"); code != 1 || !strings.Contains(errs, "run `keyfold notify setup`") {
		t.Errorf("not set up: %d %s", code, errs)
	}
	s.dsn, s.database = "amqp://guest:guest@127.0.0.1:1/", "postgres://keyfold@127.0.0.1:1/keyfold"
	api := s.service(t, "serve", "--http-addr=127.0.0.1:0")
	var p notified
	status, header := api.call("POST", "/v1/notifications", "", urgentNow(uuid.New(), "17", "Your code is 1"), &p)
	if status != 503 || header.Get("Retry-After") == "" || p.Errors[0].Reason != "broker_away" {
		t.Errorf("%d %+v", status, p)
	}
}

// While PostgreSQL is away the API is ready, and /readyz says what cannot be read.
//
// Promise(api/ledger-away)
func TestNotifyServeReadyWithoutTheLedger(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	s.database = "postgres://keyfold:s3cret@127.0.0.1:1/keyfold"
	api := s.service(t, "serve", "--http-addr=127.0.0.1:0").ready()
	code, body := api.get("/readyz")
	if code != 200 || !strings.HasPrefix(body, "ok\n") || strings.Contains(body, "s3cret") {
		t.Errorf("%d: %s", code, body)
	}
	says(t, body, "notifications are taken; decisions and preferences cannot be read", "NOTIFY_DATABASE_URL")
	if status, _ := api.call("POST", "/v1/notifications", "", urgentNow(uuid.New(), "17", "Your code is 1"), nil); status != 202 {
		t.Errorf("post: %d", status)
	}
}

func writeNotifications(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notifications")
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Each bad notification of a file is named with every fault and its place; without
// --skip-bad nothing is published from the first one on.
func TestNotifySendNamesFaults(t *testing.T) {
	s := newNotifyStack(t)
	if code, _, errs := s.run(t, "setup"); code != 0 {
		t.Fatal(errs)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	good := func() string {
		return fmt.Sprintf(`{"user_id":%q,"event_type":"PROMO","title":"x","source":"s","channel":["push"],"timestamp":%q}`, uuid.NewString(), now)
	}
	const bad = `{"user_id":"","event_type":"NEWS","title":"x","source":"s","channel":["push"],"timestamp":"2026-02-10T14:30:00Z"}`
	type sent struct {
		Published, Refused, Unsent int
		Bad                        []struct {
			Line, Element int
			Faults        []notify.Fault
		}
	}
	ndjson := writeNotifications(t, "\n"+good()+"\n"+bad+"\n\nno JSON\n"+good()+"\n")
	array := writeNotifications(t, " [ "+good()+",\n"+bad+", 5,"+good()+"]\n")
	for _, c := range []struct {
		args []string
		code int
		want sent
		says []string
	}{
		{[]string{ndjson}, 1, sent{Published: 1, Refused: 2, Unsent: 1}, []string{ndjson + ":3: user_id", ndjson + ":3: event_type", ndjson + ":5: ", "--skip-bad"}},
		{[]string{ndjson, "--skip-bad"}, 0, sent{Published: 2, Refused: 2}, []string{ndjson + ":3: "}},
		{[]string{array}, 1, sent{Published: 1, Refused: 2, Unsent: 1}, []string{array + ": element 2: user_id", array + ": element 3: "}},
		{[]string{array, "--skip-bad"}, 0, sent{Published: 2, Refused: 2}, nil},
		{[]string{writeNotifications(t, "[]")}, 0, sent{}, nil},
		{[]string{writeNotifications(t, "")}, 1, sent{}, []string{"it is empty"}},
		{[]string{writeNotifications(t, "["+good()+"] x")}, 1, sent{Published: 1}, []string{"something follows the array", "1 notification published; run the same command again"}},
		{[]string{writeNotifications(t, "["+good()+",")}, 1, sent{Published: 1}, []string{"element 2: "}},
		{[]string{writeNotifications(t, "["+good())}, 1, sent{Published: 1}, []string{"no end"}},
		{[]string{"/does/not/exist"}, 1, sent{}, []string{"name a file of NDJSON"}},
	} {
		code, out, errs := s.run(t, append([]string{"send", "-o", "json"}, c.args...)...)
		var got sent
		_ = json.Unmarshal([]byte(out), &got)
		if code != c.code || got.Published != c.want.Published || got.Refused != c.want.Refused || got.Unsent != c.want.Unsent || len(got.Bad) != got.Refused {
			t.Errorf("%v: %d %+v\n%s", c.args, code, got, errs)
		}
		for _, part := range c.says {
			if !strings.Contains(errs, part) {
				t.Errorf("%v: no %q in %s", c.args, part, errs)
			}
		}
	}
	if depths, err := rabbittest.Shared(t).Depths(s.vhost); err != nil || depths[broker.Bulk().Queue] != 9 {
		t.Errorf("%v %v", depths, err)
	}
}
