package rabbit

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"keyfold/engine"
)

// What is carried is read back: the first failure and the last four, each cut.
func TestFailuresAreCarried(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.String(), 1, MaxFailures).Draw(t, "texts")
		failures := make([]Failure, len(texts))
		for i, text := range texts {
			failures[i] = Failure{At: engine.Millis(1770733800000 + i), Err: errors.New(text)}
		}
		want := failures
		if n := len(failures); n > maxCarriedFailures {
			want = append(failures[:1:1], failures[n-maxCarriedFailures+1:]...)
		}
		o := Original{Message: Message{Headers: amqp.Table{HeaderErrors: EncodeFailures(failures)}}}
		got := o.Failures()
		if len(got) != len(want) {
			t.Fatalf("%d failures, want %d", len(got), len(want))
		}
		for i := range got {
			if text := got[i].Err.Error(); got[i].At != want[i].At || len(text) > maxCarriedText || !utf8.ValidString(text) ||
				text != Cut(want[i].Err.Error(), maxCarriedText) {
				t.Fatalf("%d: %v, want %v", i, got[i], want[i])
			}
		}
	})
}

func TestForeignErrorsHeader(t *testing.T) {
	for _, value := range []any{nil, int64(1), "", "text", `{"at":1}`, `["a"]`, `[{"at":"x"}]`, strings.Repeat(" ", maxErrorsHeader) + "[]"} {
		if got := (&Original{Message: Message{Headers: amqp.Table{HeaderErrors: value}}}).Failures(); len(got) != 0 {
			t.Errorf("%.40v: %v", value, got)
		}
	}
	many := "[" + strings.Repeat(`{"error":"a"},`, 50) + `{"error":"b"}]`
	if got := (&Original{Message: Message{Headers: amqp.Table{HeaderErrors: many}}}).Failures(); len(got) != MaxFailures {
		t.Errorf("%d of many", len(got))
	}
	worst := make([]Failure, MaxFailures)
	for i := range worst {
		worst[i].Err = errors.New(strings.Repeat("\x01", 1000))
	}
	if text := EncodeFailures(worst); len(text) > maxErrorsHeader {
		t.Errorf("our own header of %d bytes would not be read", len(text))
	}
}
