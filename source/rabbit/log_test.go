package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
)

// Malformed messages have a line that names the letter and the user; those with the
// same reason have one a minute, with their number.
func TestMalformedMessagesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDeadLetterer(nil, Timing{}, &ConsumerStats{}, slog.New(slog.NewTextHandler(&out, nil)))
		refuse := func(id, reason string, user int32) {
			p := &pendingCopy{settler: &settler{malformed: true}, reason: reason, subject: Subject{ID: id, NumericUser: true}}
			if user != 0 {
				p.subject.User = fmt.Sprint(user)
			}
			p.fail(engine.Verdict{Err: engine.PermanentError(reason, errors.New("field: found 1, expected 2"))})
			d.logMalformed(p)
		}
		for i := range 25 {
			refuse(fmt.Sprint("letter-", i), "unknown_event_type", int32(100+i))
		}
		refuse("other", "bad_json", 0)
		d.logMalformed(&pendingCopy{settler: &settler{}, reason: engine.ReasonRetriesExhausted}) // has a line of its own
		time.Sleep(time.Minute)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for i, want := range [][]string{
			{"message_id=letter-0 ", "user_id=100", "reason=unknown_event_type", "found 1, expected 2", "keyfold dlq show"},
			{"message_id=other ", "reason=bad_json"},
			{"message_id=letter-24 ", "user_id=124", "count=24"},
		} {
			for _, part := range want {
				if len(lines) != 3 || !strings.Contains(lines[i], part) {
					t.Errorf("line %d has no %q in %s", i, part, &out)
				}
			}
		}
		if strings.Contains(lines[1], "user_id") {
			t.Errorf("a user that could not be read is named: %s", lines[1])
		}
	})
}

// A publisher that is stopped says why it could not connect, but not what kept an
// earlier connection that was made in the end.
func TestRefusalOfAPublisherThatIsStopped(t *testing.T) {
	refusal := errors.New("connection refused")
	for _, c := range []struct {
		retry time.Duration
		told  bool
	}{{time.Hour, true}, {-time.Hour, false}} {
		told := 0
		for range 100 { // one that has ended may also be seen before the wait
			p := NewPublisher("amqp://guest:guest@127.0.0.1:1/", Identity{Role: "relay"}, "publisher", Timing{}, slog.New(slog.DiscardHandler))
			p.retry, p.refusal = time.Now().Add(c.retry), refusal
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if _, err := p.link(ctx); errors.Is(err, refusal) {
				told++
			}
		}
		if (told > 0) != c.told {
			t.Errorf("retry in %v: told %d times", c.retry, told)
		}
	}
}
