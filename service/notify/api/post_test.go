package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/source/httpapi"
)

// A POST is answered with 202 and the ids of all, in their order, once all are
// confirmed; the published body has the id that was made.
//
// Promise(notify/decided-once): A notification answered with 202 is confirmed by the broker and
// decided once, however often it is posted or delivered.
// Promise(api/posted): A POST is answered 202 once the broker has confirmed all of it; a faulty one
// publishes nothing and names every fault at once.
func TestPost(t *testing.T) {
	w := newWorld(t)
	id := uuid.New()
	for kind, body := range map[string]string{
		"application/json":     "[" + event(id, "17", "one") + "," + event(uuid.Nil, "18", "two") + "]",
		"application/x-ndjson": event(id, "17", "one") + "\n\n" + event(uuid.Nil, "18", "two") + "\n",
	} {
		w.broker.published, w.broker.held = nil, true
		var p posted
		if status, _ := w.ask(t, call{method: "POST", path: NotificationsPath, kind: kind, body: body}, &p); status != 202 {
			t.Fatalf("%s: status %d: %+v", kind, status, p)
		}
		if p.Accepted != 2 || p.Duplicate != 0 || len(p.EventIDs) != 2 || p.EventIDs[0] != id || p.EventIDs[1].Version() != 8 {
			t.Errorf("%s: %+v", kind, p)
		}
		if len(w.broker.published) != 2 || !strings.Contains(string(w.broker.published[1].Body), p.EventIDs[1].String()) {
			t.Errorf("%s: published %+v", kind, w.broker.published)
		}
	}
	if s := w.api.Stats(); s.Accepted.Load() != 4 || s.Failed.Load() != 0 {
		t.Errorf("%d accepted", s.Accepted.Load())
	}
}

// All faults of all notifications are named at once, and nothing is published; with
// ?partial=true the good ones are.
//
// Promise(api/posted)
func TestFaults(t *testing.T) {
	w := newWorld(t)
	bad := `{"event_id":"x","user_id":"","event_type":"NEWS","title":5,"channel":["fax"],"timestamp":"yesterday","priority_hint":"SOON","dedupe_key":[],"metadata":"x"}`
	body := "[" + event(uuid.Nil, "17", "x") + "," + bad + "]"
	status, p := w.post(t, body)
	if status != 400 || w.broker.count() != 0 {
		t.Fatalf("status %d, %d published", status, w.broker.count())
	}
	fields := []string{"event_id", "user_id", "event_type", "title", "source", "channel", "timestamp", "priority_hint", "dedupe_key", "metadata"}
	check := func(faults []httpapi.Fault) {
		t.Helper()
		for _, field := range fields {
			if !slices.ContainsFunc(faults, func(f httpapi.Fault) bool { return f.Field == field && f.Reason != "" && f.Error != "" }) {
				t.Errorf("no fault of %s in %+v", field, faults)
			}
		}
	}
	check(p.Errors)
	for _, f := range p.Errors {
		if f.Index == nil || *f.Index != 1 {
			t.Errorf("%+v", f)
		}
	}
	var part posted
	status, _ = w.ask(t, call{method: "POST", path: NotificationsPath + "?partial=true", kind: "application/json", body: body}, &part)
	if status != 202 || part.Accepted != 1 || part.Refused != 1 || w.broker.count() != 1 || part.Results[0].Status != "accepted" || part.Results[1].Status != "refused" {
		t.Errorf("partial: status %d: %+v", status, part)
	}
	check(part.Results[1].Errors)
	for path, body := range map[string]string{
		NotificationsPath + "?partial=true":  "[" + bad + "]",                             // all are refused
		NotificationsPath + "?partial=1":     "[" + event(uuid.Nil, "1", "y") + ",{]",     // no JSON as a whole
		NotificationsPath + "?partial=maybe": "[" + event(uuid.Nil, "1", "y") + "]",       // a misspelt query
		NotificationsPath:                    `[{"user_id":"1"}` + strings.Repeat(" ", 9), // no end
	} {
		if status, _ := w.ask(t, call{method: "POST", path: path, kind: "application/json", body: body}, nil); status != 400 || w.broker.count() != 1 {
			t.Errorf("%s: status %d, %d published", path, status, w.broker.count())
		}
	}
}

// The id that is made for an event may bring it over the limit of the workers' parser:
// it is refused and not published.
func TestBodyThatGrowsOverTheLimit(t *testing.T) {
	w := newWorld(t)
	body := event(uuid.Nil, "17", "x")
	body = body[:len(body)-1] + `,"more":"` + strings.Repeat("x", notify.MaxBodyBytes-len(body)-10) + `"}`
	if len(body) != notify.MaxBodyBytes {
		t.Fatal(len(body))
	}
	if status, p := w.post(t, body); status != 413 || p.Errors[0].Reason != engine.ReasonBodyTooLarge || w.broker.count() != 0 {
		t.Errorf("status %d: %+v", status, p)
	}
}

// What was decided before, or stands twice in a request, counts as a duplicate and is
// not published again; an event_id of another event is refused, and so is the request.
//
// Promise(api/repeated): A notification posted again, or twice in a request, is decided once; one
// already decided counts as a duplicate and is not published.
// Promise(api/taken-id): An event_id of another user's event or of other content is answered 409 while
// the ledger answers; the first event keeps its decision.
// Promise(notify/decided-once)
func TestRepeats(t *testing.T) {
	w := newWorld(t)
	id, other := uuid.New(), uuid.New()
	one := event(id, "17", "one")
	w.decidedNow(t, one)
	before := w.broker.count()
	status, p := w.post(t, "["+one+","+event(other, "17", "new")+","+event(other, "17", "new")+"]")
	if status != 202 || p.Accepted != 1 || p.Duplicate != 2 || w.broker.count() != before+1 || len(p.EventIDs) != 3 {
		t.Errorf("status %d: %+v, %d published", status, p, w.broker.count()-before)
	}
	// White space and the order of keys make no other event.
	if status, p := w.post(t, "  "+strings.Replace(one, `"source":"test",`, "", 1)[:len(strings.Replace(one, `"source":"test",`, "", 1))-1]+` , "source": "test"}`); status != 202 || p.Duplicate != 1 {
		t.Errorf("the same event written otherwise: %d %+v", status, p)
	}
	fresh := event(uuid.New(), "17", "fresh")
	for name, c := range map[string]struct{ body, reason string }{
		"another user":               {event(id, "99", "one"), notify.ReasonAnotherUser},
		"another text":               {event(id, "17", "two"), ReasonAnotherEvent},
		"another user in a request":  {event(other, "1", "a") + "," + event(other, "2", "a"), notify.ReasonAnotherUser},
		"another text in a request":  {fresh + "," + strings.Replace(fresh, "fresh", "stale", 1), ReasonAnotherEvent},
		"a repeat of a refused one":  {event(id, "99", "one") + "," + event(id, "99", "one"), notify.ReasonAnotherUser},
		"another user beside a good": {event(uuid.New(), "5", "good") + "," + event(id, "99", "one"), notify.ReasonAnotherUser},
	} {
		before := w.broker.count()
		status, p := w.post(t, "["+c.body+"]")
		if status != 409 || len(p.Errors) == 0 || p.Errors[len(p.Errors)-1].Reason != c.reason || p.Errors[0].Field != "event_id" || w.broker.count() != before {
			t.Errorf("%s: status %d: %+v, %d published", name, status, p, w.broker.count()-before)
		}
	}
	var part posted
	status, _ = w.ask(t, call{method: "POST", path: NotificationsPath + "?partial=1", kind: "application/json", body: "[" + fresh + "," + event(id, "99", "one") + "," + event(id, "99", "one") + "]"}, &part)
	if status != 202 || part.Accepted != 1 || part.Refused != 2 {
		t.Errorf("partial: %d %+v", status, part)
	}
}

// An erased user's event is not compared with what is left of it.
//
// Promise(notify/changed-amid)
func TestRepeatOfAnErasedUser(t *testing.T) {
	w := newWorld(t)
	id := uuid.New()
	w.decidedNow(t, event(id, "17", "one"))
	must.OK(t, w.ledger.Forget(t.Context(), "17", engine.Now()))
	if status, p := w.post(t, event(id, "17", "two")); status != 202 || p.Duplicate != 1 {
		t.Errorf("status %d: %+v", status, p)
	}
}

// All repeats of a request are compared, and those that are alike are duplicates.
//
// Promise(api/taken-id)
func TestManyRepeats(t *testing.T) {
	w := newWorld(t)
	const n = comparedAtOnce + 2
	bodies, events := make([]string, n), make([]*notify.Notification, n)
	for i := range bodies {
		bodies[i] = event(uuid.New(), fmt.Sprint(i%9), fmt.Sprint("number ", i))
		var err error
		if events[i], err = notify.Parse([]byte(bodies[i]), engine.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.broker.Decide(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	all := func() string { return "[" + strings.Join(bodies, ",") + "]" }
	if status, p := w.post(t, all()); status != 202 || p.Duplicate != n {
		t.Errorf("alike: status %d: %+v", status, p)
	}
	for _, i := range []int{0, n - 1} {
		bodies[i] = event(events[i].ID, events[i].UserID, "another")
	}
	status, p := w.post(t, all())
	if status != 409 || len(p.Errors) != 2 || *p.Errors[0].Index != 0 || *p.Errors[1].Index != n-1 || p.Errors[1].Reason != ReasonAnotherEvent {
		t.Errorf("of other content: status %d: %+v", status, p)
	}
	if w.broker.count() != 0 {
		t.Errorf("%d were published", w.broker.count())
	}
}

// Without the ledger a POST is published all the same, and requests do not ask it one by
// one.
//
// Promise(api/ledger-away): While PostgreSQL is away a POST is published all the same, reads are
// answered 503, and `/readyz` says what cannot be read.
// Promise(api/taken-id)
func TestPostWhileTheLedgerIsAway(t *testing.T) {
	w := newWorld(t)
	w.ledger.away.Store(true)
	for range 5 {
		if status, p := w.post(t, event(uuid.New(), "17", "one")); status != 202 || p.Accepted != 1 {
			t.Fatalf("status %d: %+v", status, p)
		}
	}
	if n := w.ledger.loads.Load(); n != 1 {
		t.Errorf("the ledger was asked %d times", n)
	}
	var p posted
	status, header := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: event(uuid.New(), "17", "one"), header: map[string]string{"Prefer": "wait=9"}}, &p)
	if status != 202 || p.Accepted != 1 || header.Get("Preference-Applied") != "" {
		t.Errorf("wait: status %d, %v", status, header)
	}
	for _, path := range []string{NotificationsPath + "/" + uuid.NewString(), "/v1/decisions/" + uuid.NewString(), "/v1/users/17/decisions", "/v1/users/17/preferences", "/readyz"} {
		var refused posted
		if status, header := w.ask(t, call{method: "GET", path: path}, &refused); status != 503 || header.Get("Retry-After") == "" {
			t.Errorf("GET %s: %d", path, status)
		}
	}
}

// A sender that leaves, or whose repeats cannot be compared, does not end the checks of
// the others.
//
// Promise(api/taken-id)
func TestOnlyTheLedgerEndsTheLookAtIt(t *testing.T) {
	w := newWorld(t)
	id := uuid.New()
	w.decidedNow(t, event(id, "17", "one"))
	left, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(left, http.MethodPost, NotificationsPath, strings.NewReader(event(uuid.New(), "17", "two")))
	r.Header.Set("Content-Type", "application/json")
	w.http.ServeHTTP(httptest.NewRecorder(), r)
	w.ledger.lacking.Store(true)
	if status, p := w.post(t, event(id, "17", "another")); status != 202 || p.Duplicate != 1 {
		t.Errorf("not compared: status %d: %+v", status, p)
	}
	w.ledger.lacking.Store(false)
	if status, p := w.post(t, event(id, "17", "another")); status != 409 {
		t.Errorf("compared: status %d: %+v", status, p)
	}
}

// What the broker does not confirm is answered with 503: nothing is known to be kept,
// or some of it is and the text says so.
//
// Promise(api/unconfirmed): A POST that the broker did not confirm whole gets 503 with Retry-After;
// the text says whether some may be kept, and to repeat it.
// Promise(api/no-queues): Without notification queues the API answers 503 and its log names `keyfold
// notify setup`; then requests are taken without a restart.
// Promise(notify/decided-once)
func TestUnconfirmed(t *testing.T) {
	noQueue := engine.ConfigurationError("no_event_queue", errors.New("run `keyfold notify setup`"))
	for _, c := range []struct {
		name    string
		answers []error
		reason  string
		says    string
	}{
		{"away", []error{errDown, errDown}, "broker_away", "send the request again"},
		{"some", []error{nil, errDown}, "not_confirmed", "send the whole request again"},
		{"unknown", []error{engine.ErrUnknown, errDown}, "not_confirmed", "send the request again"},
		{"not set up", []error{errDown, noQueue}, "broker_not_set_up", "the log names the cure"},
	} {
		w := newWorld(t)
		w.broker.answers = c.answers
		var p posted
		status, header := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: "[" + event(uuid.New(), "17", "one") + "," + event(uuid.New(), "17", "two") + "]"}, &p)
		if status != 503 || header.Get("Retry-After") == "" || p.Errors[0].Reason != c.reason || !strings.Contains(p.Errors[0].Error, c.says) {
			t.Errorf("%s: status %d: %+v", c.name, status, p)
		}
		if s := w.api.Stats(); s.Accepted.Load() != 0 || s.Failed.Load() == 0 {
			t.Errorf("%s: %d accepted, %d failed", c.name, s.Accepted.Load(), s.Failed.Load())
		}
	}
}

// Prefer: wait is answered with the decisions of all, also of those made before; where
// they are late, with 202 and what was accepted.
//
// Promise(api/wait): `Prefer: wait=N` is answered 200 with all decisions, or 202 after N seconds, 10
// at most, and at the process's stop.
func TestPreferWait(t *testing.T) {
	w := newWorld(t)
	id := uuid.New()
	first := w.decidedNow(t, event(id, "17", "one"))
	if len(first) != 1 || first[0].EventID != id || first[0].Outcome != notify.Now || first[0].HandedOver != nil && !*first[0].HandedOver || first[0].Repeat {
		t.Fatalf("%+v", first)
	}
	again := w.decidedNow(t, "["+event(uuid.New(), "18", "two")+","+event(id, "17", "one")+","+event(id, "17", "one")+"]")
	if len(again) != 3 || again[0].Repeat || !again[1].Repeat || !again[2].Repeat || again[1].DecisionID != first[0].DecisionID {
		t.Errorf("%+v", again)
	}
}

// A request that waits never gets the decision of another user's event, also where the
// ledger did not answer before the publish.
func TestWaitForAnotherUsersEvent(t *testing.T) {
	w := newWorld(t)
	id := uuid.New()
	w.decidedNow(t, event(id, "17", "one"))
	w.api.rest.Store(time.Now().Add(time.Hour).UnixNano())
	var p posted
	status, _ := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: event(id, "99", "one"), header: map[string]string{"Prefer": "wait=5"}}, &p)
	if status != 409 || len(p.Decisions) != 0 || p.Errors[0].Reason != notify.ReasonAnotherUser {
		t.Errorf("status %d: %+v", status, p)
	}
	if n := w.api.Stats().Refused.Load(); n != 1 {
		t.Errorf("%d refused", n)
	}
}

// Only of a key that is marked as dispatched it is known that its NOW was handed over:
// the mark is written after the dispatch.
func TestHandedOver(t *testing.T) {
	w := newWorld(t)
	first := w.decidedNow(t, event(uuid.New(), "17", "one"))[0]
	for _, marked := range []bool{true, false} {
		d, err := w.api.known(t.Context(), notify.Known{EventID: first.EventID, DecisionID: first.DecisionID, Outcome: notify.Now, Dispatched: marked})
		if err != nil || (d.HandedOver != nil) != marked || marked && !*d.HandedOver {
			t.Errorf("marked %t: %+v, %v", marked, d, err)
		}
	}
}

// A token posts notifications of its sources and types alone. Where one of a request is
// barred, the request is refused, or with partial=true that notification.
//
// Promise(api/limited-tokens)
func TestATokenPostsItsSourcesAlone(t *testing.T) {
	const news = "token-of-a-test-01"
	w := newWorld(t, news+" send source=newsletter type=PROMO|UPDATE")
	of := func(source, kind string) string {
		e := strings.Replace(event(uuid.New(), "17", "one"), `"source":"test"`, `"source":"`+source+`"`, 1)
		return strings.Replace(e, "SECURITY", kind, 1)
	}
	good, payments, security := of("newsletter", "UPDATE"), of("payments", "UPDATE"), of("newsletter", "SECURITY")
	for _, c := range []struct {
		body, query       string
		status, published int
		fault             string // of the last notification
	}{
		{good, "", 202, 1, ""},
		{payments, "", 403, 0, "source_forbidden at source"},
		{security, "", 403, 0, "type_forbidden at event_type"},
		{"[" + of("newsletter", "PROMO") + "," + payments + "]", "", 403, 0, "source_forbidden at source"},
		{"[" + of("newsletter", "PROMO") + "," + payments + "]", "?partial=true", 202, 1, "source_forbidden at source"},
	} {
		before := w.broker.count()
		var p posted
		status, _ := w.ask(t, call{
			method: "POST", path: NotificationsPath + c.query, kind: "application/json", body: c.body,
			header: map[string]string{"Authorization": "Bearer " + news},
		}, &p)
		faults := p.Errors
		if len(p.Results) > 0 {
			faults = p.Results[len(p.Results)-1].Errors
		}
		fault := ""
		if len(faults) == 1 {
			fault = faults[0].Reason + " at " + faults[0].Field
		}
		if published := w.broker.count() - before; status != c.status || published != c.published || fault != c.fault {
			t.Errorf("%s: status %d, want %d; %d published, want %d; %+v, want %q", c.body, status, c.status, published, c.published, p, c.fault)
		}
	}
}

// A wait ends at its time, at the stop of the process and at the sender's leave; it is
// 10 s long at most.
//
// Promise(api/wait)
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.broker.held = true
		wait := func(prefer string) (int, string, time.Duration) {
			began := time.Now()
			status, header := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: event(uuid.New(), "17", "one"), header: map[string]string{"Prefer": prefer}}, nil)
			return status, header.Get("Preference-Applied"), time.Since(began)
		}
		for prefer, want := range map[string]struct {
			applied string
			took    time.Duration
		}{
			"wait=2":                        {"wait=2", 2 * time.Second},
			"respond-async, WAIT = \"3\"":   {"wait=3", 3 * time.Second},
			"wait=600":                      {"wait=10", 10 * time.Second},
			"wait=1; x=y, wait=5":           {"wait=1", time.Second},
			"wait=0":                        {"", 0},
			"wait=-1":                       {"", 0},
			"wait=soon":                     {"", 0},
			"wait":                          {"", 0},
			"return=minimal":                {"", 0},
			"wait=99999999999999999999999a": {"", 0},
		} {
			status, applied, took := wait(prefer)
			if status != 202 || applied != want.applied || took != want.took {
				t.Errorf("%s: %d, applied %q, after %v", prefer, status, applied, took)
			}
		}
		if s := w.api.Stats(); s.Waits.Load() != 4 || s.InTime.Load() != 0 {
			t.Errorf("%d waits, %d in time", s.Waits.Load(), s.InTime.Load())
		}
		time.AfterFunc(time.Second, w.stop)
		if status, _, took := wait("wait=10"); status != 202 || took != time.Second {
			t.Errorf("at the stop: %d after %v", status, took)
		}
	})
}

// Beyond so many that wait a request is answered at once.
func TestSoManyWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.broker.held = true
		var applied, atOnce atomic.Int64
		var all sync.WaitGroup
		for range maxWaiting + 6 {
			all.Go(func() {
				began := time.Now()
				status, header := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: event(uuid.New(), "17", "one"), header: map[string]string{"Prefer": "wait=2"}}, nil)
				switch {
				case status == 202 && header.Get("Preference-Applied") != "" && time.Since(began) == 2*time.Second:
					applied.Add(1)
				case status == 202 && header.Get("Preference-Applied") == "" && time.Since(began) == 0:
					atOnce.Add(1)
				}
			})
		}
		all.Wait()
		if applied.Load() != maxWaiting || atOnce.Load() != 6 || w.api.waiting.Load() != 0 {
			t.Errorf("%d waited, %d did not", applied.Load(), atOnce.Load())
		}
	})
}

// A request of many notifications does not wait: each decision is read by itself.
//
// Promise(api/wait)
func TestManyDoNotWait(t *testing.T) {
	w := newWorld(t)
	w.broker.held = true
	var all []string
	for range maxWaited + 1 {
		all = append(all, event(uuid.New(), "17", "one"))
	}
	status, header := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/x-ndjson", body: strings.Join(all, "\n"), header: map[string]string{"Prefer": "wait=10"}}, nil)
	if status != 202 || header.Get("Preference-Applied") != "" {
		t.Errorf("%d, applied %q", status, header.Get("Preference-Applied"))
	}
}

// 2,000 hostile bodies: each is answered as described, none with 500, and what is
// published parses.
//
// Promise(api/posted)
func TestHostileBodies(t *testing.T) {
	w := newWorld(t)
	w.broker.held = true
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		body := []byte(event(uuid.Nil, "17", "x"))
		switch i % 7 {
		case 0: // a byte is another one
			body[r.IntN(len(body))] = byte(r.Uint32())
		case 1: // cut off
			body = body[:r.IntN(len(body))]
		case 2: // a piece twice
			at := r.IntN(len(body))
			body = slices.Concat(body[:at], body[at/2:])
		case 3: // bytes of no meaning
			body = make([]byte, r.IntN(200))
			for j := range body {
				body[j] = byte(r.Uint32())
			}
		case 4: // deep
			body = bytes.Repeat([]byte(`{"metadata":[`), 1+r.IntN(3000))
		case 5: // a title of any characters
			body = bytes.Replace(body, []byte(`"x"`), []byte(`"\u0000\ud800`+strings.Repeat("é", r.IntN(200))+`"`), 1)
		case 6: // many, one of them at fault
			body = fmt.Appendf(nil, "[%s,%s,{}]", body, body)
		}
		path := NotificationsPath + []string{"", "?partial=true"}[r.IntN(2)]
		kind := []string{"application/json", "application/x-ndjson", "text/plain"}[r.IntN(3)]
		var p posted
		status, _ := w.ask(t, call{method: "POST", path: path, kind: kind, body: string(body)}, &p)
		if status != 202 && (status < 400 || status >= 500) {
			t.Fatalf("%q: %d %+v", body, status, p)
		}
	}
	for _, e := range w.broker.published {
		if again, err := notify.Parse(e.Body, engine.Now()); err != nil || again.ID != e.ID {
			t.Fatalf("%s: %v", e.Body, err)
		}
	}
}

// What an application answers with 503 makes it not ready, and a stored request ready
// again.
func TestReadiness(t *testing.T) {
	w := newWorld(t)
	w.broker.answers = []error{errDown}
	if status, _ := w.post(t, event(uuid.Nil, "17", "one")); status != 503 {
		t.Fatal(status)
	}
	if status, _ := w.ask(t, call{method: "GET", path: "/readyz"}, nil); status != 503 {
		t.Errorf("not confirmed: %d", status)
	}
	w.post(t, event(uuid.Nil, "17", "one"))
	if status, _ := w.ask(t, call{method: "GET", path: "/readyz"}, nil); status != 200 {
		t.Errorf("confirmed: %d", status)
	}
}

// A read that the ledger fails does not end the readiness: notifications are taken.
func TestReadinessWithoutTheLedger(t *testing.T) {
	w := newWorld(t)
	w.ledger.lacking.Store(true)
	if status, _ := w.ask(t, call{method: "GET", path: "/v1/decisions/" + uuid.NewString()}, nil); status != 503 {
		t.Errorf("read: %d", status)
	}
	if status, _ := w.ask(t, call{method: "GET", path: "/readyz"}, nil); status != 200 {
		t.Errorf("ready: %d", status)
	}
}

// A probe needs no token and no more than the guard: the API is behind the same one as
// that of events.
func TestGuard(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01")
	if status, _ := w.post(t, event(uuid.Nil, "17", "one")); status != 401 || w.broker.count() != 0 {
		t.Errorf("status %d", status)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/events", nil)
	r.Header.Set("Authorization", "Bearer token-of-a-test-01")
	answer := httptest.NewRecorder()
	if w.http.ServeHTTP(answer, r); answer.Code != 404 {
		t.Errorf("/v1/events: %d", answer.Code)
	}
}
