package outbox

import (
	"testing"

	"keyfold/engine"
	"keyfold/source/outbox"
)

// A copy's bound is never later than its row was tried: created_at of a row from before
// an upgrade may be hours ahead.
//
// Promise(outbox/adopt-zero-dates, outbox/time-zones)
func TestSinceWhenACopyIsKnown(t *testing.T) {
	for _, c := range []struct {
		backfill              bool
		stored, tried, expect engine.Millis
	}{
		{false, 100, 0, 0},
		{false, 100, 200, 200},
		{true, 100, 0, 100},
		{true, 100, 200, 100},
		{true, 300, 200, 200},
		{false, 0, 0, 0},
		{false, 0, 200, 200},
		{true, 0, 0, 1},
		{true, 0, 200, 1}, // stored at no time: long ago
	} {
		row := outbox.Row{StoredAt: c.stored, TriedAt: c.tried}
		if got := (toBroker{backfill: c.backfill}).since(&row); got != c.expect {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
