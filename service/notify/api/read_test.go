package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/link"
)

// A decision is read by its event, by its id and by its user, each time explained.
func TestRead(t *testing.T) {
	w := newWorld(t)
	made := w.decidedNow(t, event(uuid.New(), "a/b c", "one"))[0]
	var turns struct{ Turns []Explained }
	if status, _ := w.ask(t, call{method: "GET", path: NotificationsPath + "/" + made.EventID.String()}, &turns); status != 200 || len(turns.Turns) != 1 || len(turns.Turns[0].Lines) == 0 {
		t.Errorf("%d %+v", status, turns)
	}
	var one Explained
	if status, _ := w.ask(t, call{method: "GET", path: "/v1/decisions/" + made.DecisionID.String()}, &one); status != 200 || one.Record.EventID != made.EventID || len(one.Lines) == 0 {
		t.Errorf("%d %+v", status, one)
	}
	var page struct{ Decisions []Explained }
	if status, _ := w.ask(t, call{method: "GET", path: "/v1/users/a%2Fb%20c/decisions"}, &page); status != 200 || len(page.Decisions) != 1 || page.Decisions[0].Record.DecisionID != made.DecisionID {
		t.Errorf("%d %+v", status, page)
	}
	for path, want := range map[string]int{
		NotificationsPath + "/" + uuid.NewString(): 404, NotificationsPath + "/x": 400, "/v1/decisions/" + uuid.NewString(): 404, "/v1/decisions/x": 400,
		"/v1/users/99/decisions": 200, "/v1/users//decisions": 400, "/v1/users/a/b/decisions": 400, "/v1/users/a%00b/decisions": 400, "/v1/users/%00/preferences": 400, "/v1/users/" + strings.Repeat("x", 129) + "/decisions": 400,
		"/v1/users/1": 405, "/v1/users/1/other": 404, "/v1/events": 404,
		"/v1/users/1/decisions?limit=0": 400, "/v1/users/1/decisions?limit=101": 400, "/v1/users/1/decisions?limit=x": 400,
		"/v1/users/1/decisions?before=yesterday": 400, "/v1/users/1/decisions?after=1": 400, "/v1/users/1/decisions?%zz": 400,
		"/v1/users/1/decisions?before=2026-02-10T14:30:00Z&limit=5": 200,
	} {
		if status, _ := w.ask(t, call{method: "GET", path: path}, nil); status != want {
			t.Errorf("GET %s: %d, want %d", path, status, want)
		}
	}
}

// The pages of a user's decisions have each decision once, newest first, also where
// many are of one instant.
func TestPages(t *testing.T) {
	w := newWorld(t)
	total := 0
	for _, n := range []int{1, 7, 3, 1, 5} {
		var all []string
		for i := range n {
			all = append(all, event(uuid.New(), "17", fmt.Sprintf("number %d of %d", i, n)))
		}
		w.decidedNow(t, "["+strings.Join(all, ",")+"]") // decided at one instant
		total += n
	}
	for limit := 1; limit <= 20; limit++ {
		seen := map[uuid.UUID]bool{}
		path := fmt.Sprintf("/v1/users/17/decisions?limit=%d", limit)
		last := int64(1 << 62)
		for pages := 0; ; pages++ {
			var page struct {
				Decisions []Explained
				Next      string
			}
			w.ask(t, call{method: "GET", path: path}, &page)
			if read := w.ledger.page.Load(); read != int64(limit)+1 {
				t.Fatalf("limit %d: %d records are read at a time", limit, read)
			}
			for _, d := range page.Decisions {
				if seen[d.Record.DecisionID] || d.Record.Seq > last {
					t.Fatalf("limit %d: decision %s is twice or out of order", limit, d.Record.DecisionID)
				}
				seen[d.Record.DecisionID], last = true, d.Record.Seq
			}
			if page.Next == "" {
				break
			}
			if len(page.Decisions) < limit || pages > total {
				t.Fatalf("limit %d: a page of %d", limit, len(page.Decisions))
			}
			path = fmt.Sprintf("/v1/users/17/decisions?limit=%d&before=%s", limit, page.Next)
		}
		if len(seen) != total {
			t.Errorf("limit %d: %d of %d decisions", limit, len(seen), total)
		}
	}
}

// Preferences are put, read and kept to; all faults are named.
func TestPreferences(t *testing.T) {
	w := newWorld(t)
	const path = "/v1/users/17/preferences"
	put := call{method: "PUT", path: path, kind: "application/json", body: `{"zone":"Europe/Berlin","quiet":[{"from":"22:00","to":"07:00","days":["mon"]}],"muted":["PROMO"],"channels":["push"],"caps":[1,2,3]}`}
	var back map[string]any
	if status, _ := w.ask(t, put, &back); status != 200 {
		t.Fatalf("%d %v", status, back)
	}
	if status, _ := w.ask(t, call{method: "GET", path: path}, &back); status != 200 || back["zone"] != "Europe/Berlin" {
		t.Errorf("%d %v", status, back)
	}
	var refused posted
	if status, _ := w.ask(t, call{method: "PUT", path: path, kind: "application/json", body: `{"zone":"Mars","muted":["SECURITY"],"more":1}`}, &refused); status != 400 || len(refused.Errors) < 2 {
		t.Errorf("%d %+v", status, refused)
	}
	if status, _ := w.ask(t, call{method: "PUT", path: path, kind: "text/plain", body: `{}`}, nil); status != 415 {
		t.Errorf("text/plain: %d", status)
	}
	must.OK(t, w.ledger.Forget(t.Context(), "17", 1))
	if status, _ := w.ask(t, put, &refused); status != 409 || refused.Errors[0].Reason != "user_erased" {
		t.Errorf("erased: %d %+v", status, refused)
	}
}

// Preferences have a version: a change that was made from another one is refused, with the
// present one.
//
// Promise(api/preferences-version): A change of preferences with If-Match is made of that version alone, else answered 412
// with the present one.
func TestPreferencesOfAVersion(t *testing.T) {
	w := newWorld(t)
	change := func(method, ifMatch, body string, want int, tag, stored string) {
		t.Helper()
		c := call{method: method, path: "/v1/users/17/preferences", kind: "application/json", body: body, header: map[string]string{}}
		if ifMatch != "" {
			c.header["If-Match"] = ifMatch
		}
		var answer map[string]any
		status, header := w.ask(t, c, &answer)
		if status != want || header.Get("Etag") != tag {
			t.Errorf("%s %s if %s: %d with the tag %s, want %d with %s: %v", method, body, ifMatch, status, header.Get("Etag"), want, tag, answer)
		}
		got, err := w.ledger.Preferences(t.Context(), "17")
		text, _ := json.Marshal(got.Own)
		if err != nil || string(text) != stored {
			t.Errorf("%s %s if %s: stored are %s, %v, want %s", method, body, ifMatch, text, err, stored)
		}
	}
	change("GET", "", "", 200, `"0"`, `{}`)
	change("PUT", `"1"`, `{"paused":true}`, 412, `"0"`, `{}`)
	change("PUT", `"0"`, `{"attributes":{"plan":"pro"}}`, 200, `"1"`, `{"attributes":{"plan":"pro"}}`)
	change("PUT", `"1"`, `{"zone":"UTC"}`, 200, `"2"`, `{"zone":"UTC","attributes":{"plan":"pro"}}`)
	change("PUT", `"1"`, `{}`, 412, `"2"`, `{"zone":"UTC","attributes":{"plan":"pro"}}`)
	change("PATCH", `W/"2"`, `{"paused":true}`, 412, `"2"`, `{"zone":"UTC","attributes":{"plan":"pro"}}`)
	change("PATCH", `"2", "3"`, `{"paused":true}`, 400, "", `{"zone":"UTC","attributes":{"plan":"pro"}}`)
	change("PATCH", `"2"`, `{"paused":true,"zone":null,"attributes":{"plan":null,"vip":true}}`, 200, `"3"`, `{"attributes":{"vip":true},"paused":true}`)
	change("PATCH", "", `{"paused":true}`, 200, `"3"`, `{"attributes":{"vip":true},"paused":true}`)
	change("PATCH", "*", `{"topics":{"a":{"channels":{"push":"digest"}}}}`, 200, `"4"`, `{"topics":{"a":{"channels":{"push":"digest"}}},"attributes":{"vip":true},"paused":true}`)
	change("PATCH", "", `{"topics":{"A":{}},"digests":["25:00"]}`, 400, "", `{"topics":{"a":{"channels":{"push":"digest"}}},"attributes":{"vip":true},"paused":true}`)
	change("PATCH", "", `[]`, 400, "", `{"topics":{"a":{"channels":{"push":"digest"}}},"attributes":{"vip":true},"paused":true}`)
	change("PUT", "", `{"attributes":null}`, 200, `"5"`, `{}`)
	for kind, want := range map[string]int{"application/merge-patch+json": 200, "application/merge-patch+json; charset=utf-8": 200, "text/plain": 415, "application/json-patch+json": 415} {
		if status, _ := w.ask(t, call{method: "PATCH", path: "/v1/users/17/preferences", kind: kind, body: `{"caps":[1,2,3]}`}, nil); status != want {
			t.Errorf("%s: %d, want %d", kind, status, want)
		}
	}
	var refused posted
	w.ledger.away.Store(true)
	if status, _ := w.ask(t, call{method: "PATCH", path: "/v1/users/17/preferences", kind: "application/json", body: `{}`}, &refused); status != 503 || refused.Errors[0].Reason != "store_away" {
		t.Errorf("away: %d %+v", status, refused)
	}
}

// Users open their pages without a bearer token, and beside the API's own refusals: what a
// page changes is what the API answers with.
//
// Promise(api/pages): The pages of preferences need no bearer token but their signed link, which opens nothing else.
func TestPagesBesideTheAPI(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01")
	token := w.links.Token(link.Grant{Purpose: link.Unsubscribe, User: "17", Type: notify.Promo, Expires: engine.Now() + 60_000})
	target := "/unsubscribe?t=" + token
	for _, c := range []struct {
		call   call
		status int
	}{
		{call{method: "GET", path: target}, 200},
		{call{method: "POST", path: target, kind: "application/x-www-form-urlencoded", body: "List-Unsubscribe=One-Click"}, 200},
		{call{method: "POST", path: target, kind: "application/json", body: "{}"}, 415},
		{call{method: "DELETE", path: target}, 405},
		{call{method: "GET", path: "/preferences?t=" + token}, 403},
		{call{method: "GET", path: "/preferences"}, 403},
		{call{method: "GET", path: "/unsubscribe/"}, 401},
		{call{method: "GET", path: "/v1/users/17/preferences?t=" + token}, 401},
	} {
		c.call.header = map[string]string{"Origin": "https://mail.example"}
		if status, _ := w.ask(t, c.call, nil); status != c.status {
			t.Errorf("%s %s: %d, want %d", c.call.method, c.call.path, status, c.status)
		}
	}
	var own map[string]any
	status, _ := w.ask(t, call{method: "GET", path: "/v1/users/17/preferences", header: map[string]string{"Authorization": "Bearer token-of-a-test-01"}}, &own)
	if status != 200 || fmt.Sprint(own["muted"]) != "[PROMO]" {
		t.Errorf("%d %v", status, own)
	}
}

// A user is erased by a token of the scope admin, as often as it is asked for: texts and
// preferences are gone, a repeat of what was decided is a repeat, and what comes later is
// not sent.
func TestForgetUser(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01 send,read", "token-of-a-test-02 admin")
	bearer := func(token string) map[string]string {
		return map[string]string{"Authorization": "Bearer token-of-a-test-" + token, "Prefer": "wait=10"}
	}
	const path = "/v1/users/anna%2F1"
	first := event(uuid.New(), "anna/1", "a text")
	post := func(body string) (p posted) {
		status, _ := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: body, header: bearer("01")}, &p)
		if status != 200 || len(p.Decisions) != 1 {
			t.Fatalf("%d %+v", status, p)
		}
		return p
	}
	made := post(first).Decisions[0]
	if status, _ := w.ask(t, call{method: "DELETE", path: path, header: bearer("01")}, nil); status != 403 {
		t.Errorf("without the scope: %d", status)
	}
	w.ledger.away.Store(true)
	if status, _ := w.ask(t, call{method: "DELETE", path: path, header: bearer("02")}, nil); status != 503 {
		t.Errorf("away: %d", status)
	}
	w.ledger.away.Store(false)
	for range 2 {
		var erased map[string]any
		if status, _ := w.ask(t, call{method: "DELETE", path: path, header: bearer("02")}, &erased); status != 200 || erased["user_id"] != "anna/1" || erased["erased"] != true {
			t.Errorf("%d %v", status, erased)
		}
	}
	if again := post(first).Decisions[0]; again.DecisionID != made.DecisionID || !again.Repeat {
		t.Errorf("%+v", again)
	}
	if later := post(event(uuid.New(), "anna/1", "a text")).Decisions[0]; later.Reasons[0] != notify.ReasonUserErased {
		t.Errorf("%+v", later)
	}
	var read map[string]any
	w.ask(t, call{method: "GET", path: "/v1/decisions/" + made.DecisionID.String(), header: bearer("01")}, &read)
	if text := fmt.Sprint(read); strings.Contains(text, "anna") || strings.Contains(text, "a text") {
		t.Errorf("%s", text)
	}
	for path, want := range map[string]int{"/v1/users/": 400, "/v1/users": 404, "/v1/users/a/b": 404} {
		if status, _ := w.ask(t, call{method: "DELETE", path: path, header: bearer("02")}, nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if status, header := w.ask(t, call{method: "GET", path: path, header: bearer("01")}, nil); status != 405 || header.Get("Allow") != "DELETE" {
		t.Errorf("GET: %d", status)
	}
	w.api.ports.Erases = false
	w.api.ports.Ledger = nil // is not asked
	answer := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodDelete, path, nil)
	r.Header.Set("Authorization", bearer("02")["Authorization"])
	if w.http.ServeHTTP(answer, r); answer.Code != 404 {
		t.Errorf("where users are not erased: %d", answer.Code)
	}
}

// Each report is applied or refused by itself, as often as it comes, and is shown with
// its decision.
//
// Promise(api/reports): Delivery reports that come twice, in any order or of unknown decisions are
// applied or refused one by one, and the answer says which.
func TestDeliveries(t *testing.T) {
	w := newWorld(t)
	made := w.decidedNow(t, event(uuid.New(), "17", "one"))[0]
	good := fmt.Sprintf(`{"event_id":%q,"status":"DELIVERED","channel":"push","at":"2026-02-10T14:30:02Z"}`, made.EventID)
	byDecision := fmt.Sprintf(`{"decision_id":%q,"status":"DELIVERY_FAILED","at":"2026-02-10T14:30:01Z","error":"no device"}`, made.DecisionID)
	unknown := fmt.Sprintf(`{"event_id":%q,"status":"DELIVERED","channel":"push","at":"2026-02-10T14:30:02Z"}`, uuid.New())
	bad := `{"event_id":"x","status":"LOST","channel":"fax","at":"now"}`
	type answer struct {
		Applied, Refused int
		Results          []applied
		Errors           []any
	}
	report := func(body string) (int, answer) {
		var a answer
		status, _ := w.ask(t, call{method: "POST", path: "/v1/deliveries", kind: "application/json", body: body}, &a)
		return status, a
	}
	for range 2 {
		status, a := report("[" + unknown + "," + good + "," + bad + "," + byDecision + "]")
		if status != 200 || a.Applied != 2 || a.Refused != 2 || len(a.Results) != 4 {
			t.Fatalf("%d %+v", status, a)
		}
		if a.Results[0].Errors[0].Reason != notify.ReasonUnknownDecision || len(a.Results[2].Errors) != 4 || a.Results[1].Status != "applied" || a.Results[3].Index != 3 {
			t.Errorf("%+v", a.Results)
		}
	}
	if status, _ := report(good); status != 200 {
		t.Errorf("one: %d", status)
	}
	for _, body := range []string{unknown, "[" + bad + "]", "[", ""} {
		if status, _ := report(body); status != 400 {
			t.Errorf("%q: %d", body, status)
		}
	}
	var one struct{ Delivery json.RawMessage }
	w.ask(t, call{method: "GET", path: "/v1/decisions/" + made.DecisionID.String()}, &one)
	if !strings.Contains(string(one.Delivery), `"DELIVERED"`) {
		t.Errorf("%s", one.Delivery)
	}
	w.ledger.away.Store(true)
	if status, _ := report(good); status != 503 {
		t.Errorf("away: %d", status)
	}
}
