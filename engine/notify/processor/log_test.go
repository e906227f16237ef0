package processor_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
)

// A notification that is tried again has one line with its ids, the attempt, the delay and
// a hint, and none on its last attempt, of which the source tells.
func TestRetriesAreLogged(t *testing.T) {
	f := newFixture(t, false)
	var out bytes.Buffer
	f.log = slog.New(slog.NewTextHandler(&out, nil))
	config := processor.DefaultConfig()
	config.Pause, config.MaxPause, config.Failures = time.Microsecond, time.Microsecond, 1
	f.Processor = f.again(t, config)
	f.faults.commits = func(notify.Change) error { return errFlaky }
	e := post(t, "7", "SECURITY", "x")
	retries := func(last bool) (lines []string) {
		out.Reset()
		f.decide(t.Context(), processor.Delivery{Event: e, Attempt: 2, Last: last, RetryDelay: 20 * time.Second})
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "it is tried again") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	lines := retries(false)
	if len(lines) != 1 || len(retries(true)) != 0 {
		t.Fatalf("%q", lines)
	}
	for _, attribute := range []string{"component=notify", "user_id=7", "event_id=" + e.ID.String(), "attempt=2", "delay=20s", "hint=", "error="} {
		if !strings.Contains(lines[0], attribute) {
			t.Errorf("%s is missing in %s", attribute, lines[0])
		}
	}
}
