package rabbit

import (
	"errors"
	"fmt"
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
		texts := rapid.SliceOfN(rapid.String(), 1, maxFailures).Draw(t, "texts")
		failures := make([]Failure, len(texts))
		for i, text := range texts {
			failures[i] = Failure{At: engine.Millis(1770733800000 + i), Err: errors.New(text)}
		}
		want := failures
		if n := len(failures); n > maxCarriedFailures {
			want = append(failures[:1:1], failures[n-maxCarriedFailures+1:]...)
		}
		o := Original{Message: Message{Headers: amqp.Table{HeaderErrors: encodeFailures(failures)}}}
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
	if got := (&Original{Message: Message{Headers: amqp.Table{HeaderErrors: many}}}).Failures(); len(got) != maxFailures {
		t.Errorf("%d of many", len(got))
	}
	worst := make([]Failure, maxFailures)
	for i := range worst {
		worst[i].Err = errors.New(strings.Repeat("\x01", 1000))
	}
	if text := encodeFailures(worst); len(text) > maxErrorsHeader {
		t.Errorf("our own header of %d bytes would not be read", len(text))
	}
}

func TestCopyHeaders(t *testing.T) {
	settlerOf := func(headers amqp.Table) *settler {
		return &settler{
			attempts: 2, firstSeen: 99, failures: []Failure{{At: 7, Err: errAttempt}},
			message: Original{Message: Message{Exchange: "shop", Headers: headers}},
		}
	}
	own := amqp.Table{
		HeaderFirstSeen: int64(99), HeaderAttempts: int64(2), HeaderExchange: "shop",
		HeaderErrors: `[{"at":7,"error":"503 from the embedder"}]`,
	}
	for name, tc := range map[string]struct{ had, gets amqp.Table }{
		"none":  {nil, nil},
		"plain": {amqp.Table{"trace": "abc"}, amqp.Table{"trace": "abc"}},
		"marks": {amqp.Table{
			"x-death": []any{amqp.Table{}}, HeaderReason: "expired", HeaderFirstExchange: "", "x-first-death-queue": "q",
			"x-last-death-queue": "q", "x-delivery-count": int64(3), "CC": []any{"a"}, HeaderErrors: "old", HeaderAttempts: int32(1),
		}, nil},
		"huge": {amqp.Table{"a": strings.Repeat("x", maxForeignHeaders), "b": "c"}, nil},
	} {
		had := len(tc.had)
		want := amqp.Table{}
		for _, from := range []amqp.Table{tc.gets, own} {
			for k, v := range from {
				want[k] = v
			}
		}
		got := settlerOf(tc.had).copyHeaders()
		if fmt.Sprint(got) != fmt.Sprint(want) || len(tc.had) != had {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		// Through a delay queue: the broker's exchange is not the event's.
		got[HeaderFirstExchange] = ""
		if back := (&Original{Message: Message{Headers: got}}); back.Origin() != "shop" || len(back.Failures()) != 1 {
			t.Errorf("%s: origin %q", name, back.Origin())
		}
	}
}

// A copy without an id gets its event's, which returns are matched by.
func TestCopyHasAnID(t *testing.T) {
	c := &settler{
		session: &session{config: &Config{Describe: DescribeEvent}},
		message: Original{Message: Message{Body: body(7)}},
	}
	if m := c.copyTo("", "q"); m.ID != "m000007" || m.Exchange != "" || m.RoutingKey != "q" || string(m.Body) != string(body(7)) {
		t.Errorf("%+v", m)
	}
	c.message.ID = "property"
	if id := c.copyTo("", "q").ID; id != "property" {
		t.Error(id)
	}
	long := strings.Replace(string(body(7)), "m000007", strings.Repeat("€", engine.MaxMessageRunes), 1)
	c.message.Message = Message{Body: []byte(long)}
	if id := c.copyTo("", "q").ID; id != "" {
		t.Errorf("id of %d bytes", len(id))
	}
}
