package api

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// A token that is limited to a source and a type posts these alone, whatever else it has:
// the rest is 403, alone and in company, and what is refused is not published. A preview,
// which shows a user's state, is no way around it.
func TestALimitedTokenPostsItsOwnAlone(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01 send,read source=newsletter type=PROMO|SECURITY")
	header := map[string]string{"Authorization": "Bearer token-of-a-test-01"}
	from := func(source, kind string) string {
		return strings.NewReplacer(`"source":"test"`, `"source":"`+source+`"`, "SECURITY", kind).Replace(event(uuid.New(), "anna", "a text"))
	}
	own, foreign, urgent := from("newsletter", "PROMO"), from("payments", "PROMO"), from("newsletter", "ALERT")
	for _, c := range []struct {
		path, kind, body string
		status           int
		reason           string
	}{
		{NotificationsPath, "application/json", own, 202, ""},
		{NotificationsPath, "application/json", foreign, 403, "source_forbidden"},
		{NotificationsPath, "application/json", urgent, 403, "type_forbidden"},
		{NotificationsPath, "application/json", strings.Replace(own, "newsletter", "Newsletter", 1), 403, "source_forbidden"},
		{NotificationsPath, "application/json", "[" + from("newsletter", "PROMO") + "," + foreign + "]", 403, "source_forbidden"},
		{NotificationsPath, "application/x-ndjson", from("newsletter", "PROMO") + "\n" + foreign + "\n", 403, "source_forbidden"},
		{previewPath, "application/json", from("newsletter", "SECURITY"), 200, ""},
		{previewPath, "application/json", foreign, 403, "source_forbidden"},
	} {
		before := w.broker.count()
		var p posted
		status, _ := w.ask(t, call{method: "POST", path: c.path, kind: c.kind, body: c.body, header: header}, &p)
		if status != c.status || (c.reason == "") != (len(p.Errors) == 0) || c.reason != "" && p.Errors[0].Reason != c.reason {
			t.Errorf("%s %s: %d %+v, want %d %s", c.path, c.body, status, p.Errors, c.status, c.reason)
		}
		if status != 202 && w.broker.count() != before {
			t.Errorf("%s %s: published all the same", c.path, c.body)
		}
	}
	var p posted
	before := w.broker.count()
	status, _ := w.ask(t, call{
		method: "POST", path: NotificationsPath + "?partial=true", kind: "application/x-ndjson",
		body: from("newsletter", "PROMO") + "\n" + foreign + "\n", header: header,
	}, &p)
	if status != 207 && status != 202 && status != 200 || p.Refused != 1 || w.broker.count() != before+1 {
		t.Errorf("in part: %d %+v", status, p)
	}
}
