package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// cancel posts cancellations, and returns the statuses of the answer.
func (w *world) cancel(t testing.TB, kind, body string, header map[string]string) (status int, all []Cancelled) {
	t.Helper()
	var answer struct{ Results *[]Cancelled }
	status, _ = w.ask(t, call{method: "POST", path: cancellationsPath, kind: kind, body: body, header: header}, &answer)
	if answer.Results == nil {
		t.Fatalf("%s: %d, no results", body, status)
	}
	for i, one := range *answer.Results {
		if one.Index != i {
			t.Errorf("result %d has the index %d", i, one.Index)
		}
	}
	return status, *answer.Results
}

// Each cancellation says what became of it; what was cancelled before it came is not decided
// again.
func TestCancellationsOneByOne(t *testing.T) {
	w := newWorld(t)
	coming := uuid.New()
	now := w.decidedNow(t, event(uuid.New(), "1", "sent"))[0].EventID
	of := func(id uuid.UUID, user string) string { return fmt.Sprintf(`{"event_id":%q,"user_id":%q}`, id, user) }
	for _, c := range []struct{ body, want string }{
		{fmt.Sprintf(`{"event_id":%q}`, coming), "unknown"},
		{of(coming, "1"), "cancelled"},
		{of(coming, "1"), "ended"},
		{of(coming, "2"), "unknown"},
		{fmt.Sprintf(`{"event_id":%q}`, now), "sent"},
		{of(now, "2"), "unknown"},
		{`{"user_id":"1","dedupe_key":"k"}`, "not_waiting"},
	} {
		if status, all := w.cancel(t, "application/json", c.body, nil); status != 200 || len(all) != 1 || all[0].Status != c.want {
			t.Errorf("%s: %d %+v, want %s", c.body, status, all, c.want)
		}
	}
	if d := w.decidedNow(t, event(coming, "1", "cancelled")); d[0].Outcome.String() != "NEVER" || !slices.Equal(d[0].Reasons, []string{"CANCELLED"}) {
		t.Errorf("what was cancelled before it came: %+v", d)
	}
	if status, all := w.cancel(t, "application/json", "[]", nil); status != 200 || len(all) != 0 {
		t.Errorf("none: %d %+v", status, all)
	}
	for _, body := range []string{"{}", "null", "[null]", `{"event_id":"x"}`, `{"dedupe_key":"k"}`, `{"user_id":"u","dedupe_key":""}`, `{"event_id":7}`} {
		if status, all := w.cancel(t, "application/json", body, nil); status != 400 || all[0].Status != "refused" || len(all[0].Errors) == 0 {
			t.Errorf("%s: %d %+v", body, status, all)
		}
	}
	if status, all := w.cancel(t, "application/x-ndjson", of(coming, "1")+"\n\n{\n", nil); status != 200 || len(all) != 2 || all[1].Status != "refused" {
		t.Errorf("lines: %d %+v", status, all)
	}
	var many strings.Builder
	for i := range 10_000 {
		many.WriteString(of(uuid.New(), fmt.Sprint("user ", i%97)) + "\n")
	}
	status, all := w.cancel(t, "application/x-ndjson", many.String(), nil)
	if status != 200 || len(all) != 10_000 || slices.ContainsFunc(all, func(c Cancelled) bool { return c.Status != "cancelled" || len(c.EventIDs) != 1 }) {
		t.Errorf("many: %d, %d results", status, len(all))
	}
}

// A token that is limited ends nothing that it could not have posted: neither by a
// cancellation nor by a notification that replaces others.
func TestALimitedTokenReplacesNothing(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01 send source=newsletter type=PROMO", "token-of-a-test-02 send")
	limited := map[string]string{"Authorization": "Bearer token-of-a-test-01", "Prefer": "wait=10"}
	all := map[string]string{"Authorization": "Bearer token-of-a-test-02", "Prefer": "wait=10"}
	stamp := time.Now().UTC().Format(time.RFC3339)
	from := func(source, key, more string) string {
		return fmt.Sprintf(`{"event_id":%q,"user_id":"1","event_type":"PROMO","title":"%s","source":%q,"channel":["push"],"timestamp":%q,"dedupe_key":%q%s}`,
			uuid.New(), uuid.New(), source, stamp, key, more)
	}
	for i := range 12 { // most wait for a cap or a digest
		source := []string{"payments", "newsletter"}[i%2]
		if status, _ := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: from(source, "k", ""), header: all}, nil); status != 200 {
			t.Fatal(status)
		}
	}
	for _, replaces := range []string{"dedupe_key", uuid.NewString()} {
		var p posted
		body := from("newsletter", "k", `,"replaces":"`+replaces+`"`)
		status, _ := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: body, header: limited}, &p)
		if status != 403 || len(p.Errors) != 1 || p.Errors[0].Reason != "replaces_forbidden" {
			t.Errorf("replaces %s: %d %+v", replaces, status, p)
		}
		if status, _ = w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: strings.Replace(body, `"k"`, `"other"`, 1), header: all}, nil); status != 200 {
			t.Errorf("a token without limits: %d", status)
		}
	}
	_, own := w.cancel(t, "application/json", `{"user_id":"1","dedupe_key":"k"}`, limited)
	_, rest := w.cancel(t, "application/json", `{"user_id":"1","dedupe_key":"k"}`, all)
	if own[0].Status != "cancelled" || rest[0].Status != "cancelled" || len(own[0].EventIDs) > 6 || len(rest[0].EventIDs) < 4 {
		t.Errorf("by key: its own %+v, the rest %+v", own, rest)
	}
}

// What became of an event of another source is not told to a token that is limited.
func TestALimitedTokenLearnsNothing(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01 send source=newsletter", "token-of-a-test-02 send")
	limited := map[string]string{"Authorization": "Bearer token-of-a-test-01"}
	all := map[string]string{"Authorization": "Bearer token-of-a-test-02", "Prefer": "wait=10"}
	for _, c := range []struct{ source, byLimited string }{{"test", "unknown"}, {"newsletter", "sent"}} {
		id := uuid.New()
		body := strings.Replace(event(id, "anna", "a text of "+c.source), `"source":"test"`, `"source":"`+c.source+`"`, 1)
		if status, _ := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: body, header: all}, nil); status != 200 {
			t.Fatal(status)
		}
		asked := fmt.Sprintf(`{"event_id":%q}`, id)
		_, one := w.cancel(t, "application/json", asked, limited)
		_, other := w.cancel(t, "application/json", asked, all)
		if one[0].Status != c.byLimited || other[0].Status != "sent" {
			t.Errorf("%s: %+v, and without limits %+v", c.source, one, other)
		}
	}
}
