package api

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// Two ids are made one person's by a token of the scope admin: what the API says of either is
// the person's, and an event that was posted under the alias is known.
func TestAliases(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01 send,read", "token-of-a-test-02 admin,read,send")
	bearer := func(token string) map[string]string {
		return map[string]string{"Authorization": "Bearer token-of-a-test-" + token, "Prefer": "wait=10"}
	}
	first := uuid.New()
	post := func(body string) (status int, p posted) {
		status, _ = w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: body, header: bearer("01")}, &p)
		return status, p
	}
	if status, p := post(event(first, "anon/7", "a text")); status != 200 || len(p.Decisions) != 1 {
		t.Fatalf("%d %+v", status, p)
	}
	const path = "/v1/users/anna/aliases"
	put := func(path, token string) (int, map[string]any) {
		var answer map[string]any
		status, _ := w.ask(t, call{method: "PUT", path: path, header: bearer(token)}, &answer)
		return status, answer
	}
	if status, _ := put(path+"/anon%2F7", "01"); status != 403 {
		t.Errorf("without the scope: %d", status)
	}
	if status, a := put(path+"/anon%2F7", "02"); status != 200 || a["alias"] != "anon/7" || a["user_id"] != "anna" || a["already"] != false || a["decisions"] != 1.0 {
		t.Errorf("%d %v", status, a)
	}
	if status, a := put(path+"/anon%2F7", "02"); status != 200 || a["already"] != true {
		t.Errorf("again: %d %v", status, a)
	}
	if status, _ := put(path+"/anna", "02"); status != 409 {
		t.Errorf("of itself: %d", status)
	}
	for path, want := range map[string]int{path + "/": 400, path + "/a/b": 400, "/v1/users//aliases/x": 400, path + "x/y": 404} {
		if status, _ := put(path, "02"); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	var list struct {
		UserID  string `json:"user_id"`
		Aliases []Alias
	}
	for _, user := range []string{"anna", "anon%2F7"} {
		if status, _ := w.ask(t, call{method: "GET", path: "/v1/users/" + user + "/aliases", header: bearer("01")}, &list); status != 200 || list.UserID != "anna" || len(list.Aliases) != 1 || list.Aliases[0].Alias != "anon/7" {
			t.Errorf("%d %+v", status, list)
		}
		status, _ := w.ask(t, call{method: "PATCH", path: "/v1/users/" + user + "/preferences", kind: "application/json", body: `{"paused":true}`, header: bearer("02")}, nil)
		var own map[string]any
		if w.ask(t, call{method: "GET", path: "/v1/users/" + user + "/preferences", header: bearer("01")}, &own); status != 200 || own["paused"] != true {
			t.Errorf("%s: %d %v", user, status, own)
		}
		var history struct{ Decisions []Explained }
		if w.ask(t, call{method: "GET", path: "/v1/users/" + user + "/decisions", header: bearer("01")}, &history); len(history.Decisions) != 1 || history.Decisions[0].Record.UserID != "anna" {
			t.Errorf("%s: %+v", user, history)
		}
	}
	if status, p := post(event(first, "anon/7", "a text")); status != 200 || !p.Decisions[0].Repeat {
		t.Errorf("a repeat: %d %+v", status, p)
	}
	if status, _ := post(event(first, "ben", "a text")); status != 409 {
		t.Errorf("of another user: %d", status)
	}
	if status, p := post(event(uuid.New(), "anon/7", "another text")); status != 200 || len(p.Decisions) != 1 {
		t.Errorf("the alias: %d %+v", status, p)
	}
	for _, user := range []string{"anna", "anon/7"} {
		if _, c := w.cancel(t, "application/json", fmt.Sprintf(`{"user_id":%q,"event_id":%q}`, user, first), bearer("01")); c[0].Status != "sent" {
			t.Errorf("a cancellation for %s: %+v", user, c)
		}
	}
	var preview Preview
	if status, _ := w.ask(t, call{method: "POST", path: previewPath, kind: "application/json", body: event(uuid.New(), "anon/7", "a third text"), header: bearer("01")}, &preview); status != 200 || preview.Record.UserID != "anna" {
		t.Errorf("%d %+v", status, preview)
	}
	if status, _ := w.ask(t, call{method: "DELETE", path: "/v1/users/anon%2F7", header: bearer("02")}, nil); status != 200 {
		t.Errorf("%d", status)
	}
	for _, user := range []string{"anon/7", "anna"} { // whichever it was posted for
		if status, p := post(event(first, user, "a text")); status != 200 || !p.Decisions[0].Repeat {
			t.Errorf("a repeat for %s, who is erased: %d %+v", user, status, p)
		}
	}
	if status, _ := post(event(first, "ben", "a text")); status != 409 {
		t.Errorf("of another user than an erased one: %d", status)
	}
	if status, p := post(event(uuid.New(), "anna", "a fourth text")); status != 200 || p.Decisions[0].Reasons[0] != notify.ReasonUserErased {
		t.Errorf("%d %+v", status, p)
	}
}
