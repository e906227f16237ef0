package consume

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// Promise(rabbitmq/x-death): Attempts are in keyfold's own headers; x-death is taken off.
func TestCopyHeaders(t *testing.T) {
	settlerOf := func(headers amqp.Table) *settler {
		return &settler{
			attempts: 2, firstSeen: 99, failures: []rabbit.Failure{{At: 7, Err: errAttempt}},
			message: rabbit.Original{Message: rabbit.Message{Exchange: "shop", Headers: headers}},
		}
	}
	own := amqp.Table{
		rabbit.HeaderFirstSeen: int64(99), rabbit.HeaderAttempts: int64(2), rabbit.HeaderExchange: "shop",
		rabbit.HeaderErrors: `[{"at":7,"error":"503 from the embedder"}]`,
	}
	for name, tc := range map[string]struct{ had, gets amqp.Table }{
		"none":  {nil, nil},
		"plain": {amqp.Table{"trace": "abc"}, amqp.Table{"trace": "abc"}},
		"marks": {amqp.Table{
			"x-death": []any{amqp.Table{}}, rabbit.HeaderReason: "expired", rabbit.HeaderFirstExchange: "", "x-first-death-queue": "q",
			"x-last-death-queue": "q", "x-delivery-count": int64(3), "CC": []any{"a"}, rabbit.HeaderErrors: "old", rabbit.HeaderAttempts: int32(1),
		}, nil},
		"huge": {amqp.Table{"a": strings.Repeat("x", 64<<10), "b": "c"}, nil},
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
		got[rabbit.HeaderFirstExchange] = ""
		if back := (&rabbit.Original{Message: rabbit.Message{Headers: got}}); back.Origin() != "shop" || len(back.Failures()) != 1 {
			t.Errorf("%s: origin %q", name, back.Origin())
		}
	}
}

// A copy without an id gets its event's, which returns are matched by.
func TestCopyHasAnID(t *testing.T) {
	c := &settler{
		session: &session{config: &Config{Describe: DescribeEvent}},
		message: rabbit.Original{Message: rabbit.Message{Body: sitetest.Body(7)}},
	}
	if m := c.copyTo("", "q"); m.ID != "m000007" || m.Exchange != "" || m.RoutingKey != "q" || string(m.Body) != string(sitetest.Body(7)) {
		t.Errorf("%+v", m)
	}
	c.message.ID = "property"
	if id := c.copyTo("", "q").ID; id != "property" {
		t.Error(id)
	}
	long := strings.Replace(string(sitetest.Body(7)), "m000007", strings.Repeat("€", profile.MaxMessageRunes), 1)
	c.message.Message = rabbit.Message{Body: []byte(long)}
	if id := c.copyTo("", "q").ID; id != "" {
		t.Errorf("id of %d bytes", len(id))
	}
}
