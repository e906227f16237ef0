package notifyoracle

import (
	"math"
	"math/rand/v2"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// What two ids responded is what one person would have who responded all of it.
func TestResponsesOfTwoAreSummed(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	for range 200 {
		var parts [2]notify.Responses
		var whole notify.Responses
		at := engine.Millis(1_700_000_000_000)
		for range g.IntN(30) {
			at += engine.Millis(g.Int64N(int64(20 * 24 * 3_600_000)))
			before := notify.Delivery{Status: notify.Pending}
			after := notify.Delivery{Status: notify.Delivered, At: at}
			if g.IntN(2) == 0 {
				after.Opened = at + engine.Millis(g.IntN(1000))
				at = after.Opened
			}
			kind := notify.EventTypes[g.IntN(3)]
			whole.Take(kind, &before, &after)
			parts[g.IntN(2)].Take(kind, &before, &after)
		}
		got := parts[0].Join(&parts[1])
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		same := got.At == whole.At
		for i := range got.Types {
			same = same && near(got.Types[i].Delivered, whole.Types[i].Delivered) && near(got.Types[i].Opened, whole.Types[i].Opened)
		}
		for i := range got.Hours {
			same = same && near(got.Hours[i], whole.Hours[i])
		}
		if !same {
			t.Fatalf("%+v and %+v come to %+v, want %+v", parts[0], parts[1], *got, whole)
		}
	}
}
