package api

import (
	"strings"
	"testing"

	"keyfold/engine/notify"
)

// What is told to those who may not read texts has no text of the notification, and the rest as it is.
func TestUntoldHasNoText(t *testing.T) {
	d := notify.Decided{
		Event:  &notify.Notification{Title: "Your secret order", Message: "a secret", Body: []byte(`{"title":"Your secret order"}`), ExpiresAt: 7},
		Record: notify.Record{UserID: "17", Type: notify.Update, Outcome: notify.Now, Reasons: []string{notify.ReasonScoreHigh}},
	}
	d.Record.Facts.Near = []string{
		`hot: asks for title contains "x", found "Your secret order"`, `not: asks for NOT(message contains ", found "), found "a secret"`, `source: asks for source eq "orders", found "carts"`,
	}
	told := ExplainAll(Untold([]notify.Decided{d}))[0]
	all := strings.Join(told.Lines, "\n") + string(told.Event)
	for _, s := range told.Stages {
		all += strings.Join(s.Saw, "\n")
	}
	if strings.Contains(all, "secret") {
		t.Errorf("a text is told: %s", all)
	}
	for _, want := range []string{"UPDATE for user 17", `asks for title contains "x"`, `found "carts"`} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not told: %s", want, all)
		}
	}
	if d.Event.Title == "" || !strings.Contains(d.Record.Facts.Near[0], "secret") {
		t.Error("the decision itself was changed")
	}
	if whole := Explain(&d); !strings.Contains(whole.Lines[0], "Your secret order") {
		t.Errorf("the explanation for those who may lacks the title: %s", whole.Lines[0])
	}
}
