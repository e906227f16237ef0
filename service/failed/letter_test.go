package failed

import (
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/cli"
)

// A letter's bound is renewed by each look for the event's id. "first seen" is the first
// time all the same, and the bound has a line of its own.
func TestFirstSeenIsTheFirstTime(t *testing.T) {
	first := time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)
	later := first.Add(3 * time.Hour)
	for name, c := range map[string]struct {
		failed, bound, want time.Time
	}{
		"renewed":    {first, later, first},
		"as it came": {later, first, first},
		"no failure": {time.Time{}, later, later},
	} {
		var out strings.Builder
		w := &cli.Text{W: &out}
		(&Letter{FirstFailure: c.failed, FirstSeen: engine.MillisOf(c.bound)}).Print(w)
		for _, want := range []string{"first seen     " + cli.At(c.want), "not folded by  " + cli.At(c.bound)} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out.String())
			}
		}
	}
}
