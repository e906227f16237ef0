package api

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
)

// wait has a worker decide notifications of a user that wait, with the dedupe_key k and a
// source each.
func (w *world) wait(t *testing.T, user string, ids []uuid.UUID, sources ...string) {
	t.Helper()
	var events []*notify.Notification
	for i, id := range ids {
		body := fmt.Sprintf(`{"event_id":%q,"user_id":%q,"event_type":"UPDATE","title":"Order %d","source":%q,"channel":["push"],"dedupe_key":"k",
			"priority_hint":"LOW","timestamp":%q}`, id, user, 100+i, sources[i], time.Now().UTC().Format(time.RFC3339))
		e, err := notify.Parse([]byte(body), engine.Now())
		must.OK(t, err)
		events = append(events, e)
	}
	verdicts, err := w.broker.Decide(t.Context(), events)
	must.OK(t, err)
	for _, v := range verdicts {
		if v.Err != nil || v.Records[0].Outcome != notify.Later {
			t.Fatalf("%+v", v)
		}
	}
}

// A cancellation ends what waits, and says of each what became of it; a faulty one changes
// nothing, and the others of its request are done.
//
// Promise(notify/cancelled): What waits is cancelled by its id or its dedupe_key, once; what was
// sent stays sent, and one that has not come is never sent.
func TestCancellations(t *testing.T) {
	w := newWorld(t)
	ask := func(status int, body string) (results []Cancelled) {
		t.Helper()
		var answer struct{ Results []Cancelled }
		if got, _ := w.ask(t, call{method: "POST", path: cancellationsPath, kind: "application/json", body: body}, &answer); got != status {
			t.Fatalf("%s: %d: %+v", body, got, answer)
		}
		return answer.Results
	}
	sent, coming := uuid.New(), uuid.New()
	w.decidedNow(t, event(sent, "17", "one"))
	got := ask(200, fmt.Sprintf(`[{"event_id":%q},{"event_id":%q},{"event_id":%q,"user_id":"17"},{"event_id":"x"},{"user_id":"17","dedupe_key":"none"},{},{"dedupe_key":"k"}]`,
		sent, uuid.New(), coming))
	var statuses []string
	for i := range got {
		statuses = append(statuses, got[i].Status)
	}
	if want := []string{"sent", "unknown", "cancelled", "refused", "not_waiting", "refused", "refused"}; !slices.Equal(statuses, want) {
		t.Fatalf("%v, want %v", statuses, want)
	}
	if got[3].Errors[0].Reason != notify.FaultBadEventID || got[5].Errors[0].Field != "event_id" || got[6].Errors[0].Field != "user_id" {
		t.Errorf("%+v", got)
	}
	if again := ask(200, fmt.Sprintf(`{"event_id":%q}`, coming)); again[0].Status != "ended" {
		t.Errorf("again: %+v", again)
	}
	// It comes: it is a repeat, whatever it says, and is not sent.
	if status, p := w.post(t, event(coming, "17", "two")); status != http.StatusAccepted || p.Duplicate != 1 {
		t.Errorf("%d: %+v", status, p)
	}
	ask(400, `{"event_id":5}`)
	w.ledger.away.Store(true)
	if status, _ := w.ask(t, call{method: "POST", path: cancellationsPath, kind: "application/json", body: `{"user_id":"17","dedupe_key":"k"}`}, nil); status != 503 {
		t.Errorf("away: %d", status)
	}
}

// A token that may post of some sources alone cancels those alone.
func TestCancellationsOfALimitedToken(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01", "token-of-a-test-02 send source=shop")
	ids := []uuid.UUID{uuid.New(), uuid.New()}
	w.wait(t, "17", ids, "shop", "bank")
	header := map[string]string{"Authorization": "Bearer token-of-a-test-02"}
	var answer struct{ Results []Cancelled }
	body := fmt.Sprintf(`[{"user_id":"17","dedupe_key":"k"},{"event_id":%q},{"event_id":%q,"user_id":"17"}]`, ids[1], uuid.New())
	if status, _ := w.ask(t, call{method: "POST", path: cancellationsPath, kind: "application/json", body: body, header: header}, &answer); status != 200 {
		t.Fatal(status)
	}
	if r := answer.Results; r[0].Status != "cancelled" || !slices.Equal(r[0].EventIDs, ids[:1]) || r[1].Status != "unknown" || r[2].Status != "unknown" {
		t.Errorf("%+v", r)
	}
}
