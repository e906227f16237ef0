package api

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/ruleset"
	"keyfold/sink/ledger"
)

func (w *world) preview(t *testing.T, body string) (int, Preview, posted) {
	t.Helper()
	var p struct {
		Preview
		posted
	}
	status, _ := w.ask(t, call{method: "POST", path: "/v1/decisions/preview", kind: "application/json", body: body}, &p)
	return status, p.Preview, p.posted
}

// A preview decides and leaves nothing: no counter, no record, no message. What is posted
// afterwards is decided as it was previewed.
func TestPreview(t *testing.T) {
	w := newWorld(t)
	id := uuid.New()
	promo := strings.Replace(event(id, "17", "Everything at half the price"), "SECURITY", "PROMO", 1)
	var first Preview
	for range 5 { // more than any cap
		status, p, _ := w.preview(t, promo)
		if status != 200 || p.Repeat || p.Record.DecisionID != uuid.Nil || p.Record.EventID != id || len(p.Stages) != len(notify.Stages) || p.Erased {
			t.Fatalf("%d %+v", status, p)
		}
		if first.Record.Outcome != 0 && (p.Record.Outcome != first.Record.Outcome || p.Record.Facts.Counts != [3]int{}) {
			t.Fatalf("the preview changed something: %+v", p.Record)
		}
		first = p
	}
	standing, err := w.ledger.Load(t.Context(), []notify.Ask{{User: "17", Events: []uuid.UUID{id}}})
	if err != nil || standing[0].Version != 0 || standing[0].Known[0].Outcome != 0 || w.broker.count() != 0 {
		t.Fatalf("%+v, %v, %d published", standing, err, w.broker.count())
	}
	for range w.ledger.Records(t.Context(), ledger.Filter{}) {
		t.Fatal("a record was written")
	}
	made := w.decidedNow(t, promo)[0]
	if made.Outcome != first.Record.Outcome || strings.Join(made.Reasons, ",") != strings.Join(first.Record.Reasons, ",") {
		t.Errorf("decided %+v, previewed %+v", made, first.Record)
	}
	if status, p, _ := w.preview(t, promo); status != 200 || !p.Repeat || p.Record.DecisionID != made.DecisionID {
		t.Errorf("a repeat: %d %+v", status, p)
	}
	for body, want := range map[string]int{
		event(id, "18", "Everything at half the price"):                             409,
		event(id, "17", "something else"):                                           409,
		"[" + event(uuid.New(), "1", "a") + "," + event(uuid.New(), "2", "b") + "]": 400,
		`{"user_id":5}`: 400, "": 400, "{": 400,
	} {
		if status, _, p := w.preview(t, body); status != want || len(p.Errors) == 0 {
			t.Errorf("%s: %d %+v, want %d", body, status, p.Errors, want)
		}
	}
	w.ledger.away.Store(true)
	if status, _, _ := w.preview(t, promo); status != 503 {
		t.Errorf("away: %d", status)
	}
}

// Of an erased user's decision nothing is told but that the user was erased.
func TestErasedExplainsNothing(t *testing.T) {
	w := newWorld(t)
	made := w.decidedNow(t, event(uuid.New(), "17", "Your code is 1"))[0]
	must.OK(t, w.ledger.Forget(t.Context(), "17", 1))
	var one Explained
	status, _ := w.ask(t, call{method: "GET", path: "/v1/decisions/" + made.DecisionID.String()}, &one)
	r := &one.Record
	if status != 200 || !one.Erased || len(one.Lines) != 1 || len(one.Stages) != 0 || one.DecidedBy != "" || len(one.NotNow) != 0 || string(one.Event) != "null" {
		t.Errorf("%d %+v", status, one)
	}
	if r.UserID != "" || len(r.Reasons) != 0 || r.RuleID != uuid.Nil || r.Source != "" || len(r.Channels) != 0 || r.DecisionID != made.DecisionID {
		t.Errorf("%+v", r)
	}
}

// Before a set of rules is read, nothing is previewed.
func TestPreviewWithoutASet(t *testing.T) {
	w := newWorld(t)
	w.api.ports.Sets = ruleset.Fixed{}
	if status, _, p := w.preview(t, event(uuid.New(), "17", "a")); status != 503 || len(p.Errors) == 0 {
		t.Errorf("%d %+v", status, p)
	}
}
