package consume

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// Malformed messages have a line that names the letter and the user; those with the
// same reason have one a minute, with their number.
//
// Promise(security/refusals-logged)
func TestMalformedMessagesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDeadLetterer(nil, rabbit.Timing{}, &Stats{}, slog.New(slog.NewTextHandler(&out, nil)))
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
			{"message_id=letter-0 ", "user_id=100", "reason=unknown_event_type", "found 1, expected 2", "rabbit.Show"},
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
