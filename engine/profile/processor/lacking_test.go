package processor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/recent"
)

// Events of products without a vector are one line a minute with their number, and the share of
// the last quarter of an hour is known.
//
// Promise(monitoring/quiet-faults): Missing products have a line a minute in the log with their
// number; slow is told from gone; `status` says what workers wait for.
func TestEventsWithoutAVectorAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := &Engine{ports: Ports{Log: slog.New(slog.NewTextHandler(&out, nil))}}
		settle := func(outcome engine.Outcome) {
			if outcome == engine.ProductMissing {
				e.lacking.note(&e.stats)
			}
			e.stats.Outcomes[outcome].Add(1)
			e.logVerdict(&profile.Delivery{}, engine.Verdict{Outcome: outcome})
		}
		for range 1000 {
			settle(engine.Folded) // long before
		}
		for range 50 {
			settle(engine.ProductMissing)
			settle(engine.Folded)
		}
		if events, missing := e.Lacking(); events != 100 || missing != 50 {
			t.Errorf("%d of %d", missing, events)
		}
		e.Close()
		if n := strings.Count(out.String(), "its product is unknown"); n != 2 || !strings.Contains(out.String(), "count=49") {
			t.Errorf("%d lines:\n%s", n, out.String())
		}
		time.Sleep(recent.Span + time.Second)
		if events, missing := e.Lacking(); events != 0 || missing != 0 {
			t.Errorf("later %d of %d", missing, events)
		}
	})
}
