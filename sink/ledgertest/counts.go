package ledgertest

import (
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// A span has its first instant and not its last one; of more records than its bound so many are
// counted.
func testCountsOfASpan(t *testing.T, s Store) {
	for i, outcome := range []notify.Outcome{notify.Now, notify.Later, notify.Later, notify.Now} {
		decide(t, s, "a", int64(i), outcome, start+engine.Millis(i)*minute)
	}
	for name, c := range map[string]struct {
		in         ledger.Span
		now, later int64
	}{
		"all":                   {ledger.Span{}, 2, 2},
		"from the second":       {ledger.Span{From: start + minute}, 1, 2},
		"to before the last":    {ledger.Span{To: start + 3*minute}, 1, 2},
		"the second":            {ledger.Span{From: start + minute, To: start + minute + 1}, 0, 1},
		"nothing at its end":    {ledger.Span{From: start - minute, To: start}, 0, 0},
		"as many as its bound":  {ledger.Span{Most: 4}, 2, 2},
		"before all, unbounded": {ledger.Span{From: start + 4*minute, Most: 9}, 0, 0},
	} {
		got, err := s.Counts(ctx, c.in)
		must(t, err)
		n := map[notify.Outcome]int64{}
		for _, one := range got {
			n[one.Outcome] += one.N
		}
		if n[notify.Now] != c.now || n[notify.Later] != c.later {
			t.Errorf("%s: %v, want %d NOW and %d LATER", name, got, c.now, c.later)
		}
	}
	got, err := s.Counts(ctx, ledger.Span{From: start, To: start + 4*minute, Most: 3})
	must(t, err)
	sum := int64(0)
	for _, one := range got {
		sum += one.N
	}
	if sum != 3 {
		t.Errorf("%v are counted with a bound of 3", got)
	}
}
