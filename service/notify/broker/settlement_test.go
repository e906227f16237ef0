package broker

import (
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
)

// An event whose decision is stored is not to blame for its hand-over: it waits with
// no attempt used.
//
// Promise(notify/refused-dispatch, notify-worker/no-dispatch-queue)
func TestAFailedHandOverUsesNoAttempt(t *testing.T) {
	for _, v := range []processor.Verdict{
		{Outcome: processor.Retry, Records: make([]notify.Record, 1)},
		{Outcome: processor.Retry, Key: notify.Known{Outcome: notify.Now}},
	} {
		var got engine.Verdict
		settler{settlerFunc(func(v engine.Verdict) { got = v })}.Settle(v)
		if got.Outcome.Settlement() != engine.ParkLater {
			t.Errorf("%+v is settled with %v", v, got.Outcome)
		}
	}
}
