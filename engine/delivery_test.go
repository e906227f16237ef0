package engine_test

import (
	"testing"

	"keyfold/engine"
)

type verdicts []engine.Verdict

func (v *verdicts) Settle(verdict engine.Verdict) { *v = append(*v, verdict) }

// A delivery has one verdict, the first; the next delivery has its own.
//
// Promise(rabbitmq/verdicts)
func TestSettledTwice(t *testing.T) {
	var got verdicts
	first, second := engine.Once(&got), engine.Once(&got)
	first.Settle(engine.Verdict{Outcome: engine.Retry})
	first.Settle(engine.Verdict{Outcome: engine.Retry})
	second.Settle(engine.Verdict{Outcome: engine.Folded})
	first.Settle(engine.Verdict{Outcome: engine.Dead})
	if len(got) != 2 || got[0].Outcome != engine.Retry || got[1].Outcome != engine.Folded {
		t.Errorf("%v", got)
	}
}

// A source keeps what has no outcome that it knows.
func TestSettlements(t *testing.T) {
	for outcome, want := range map[engine.Outcome]engine.Settlement{
		0:                     engine.Leave,
		engine.Folded:         engine.Ack,
		engine.Duplicate:      engine.Ack,
		engine.ProductMissing: engine.Ack,
		engine.UserErased:     engine.Ack,
		engine.Dead:           engine.DeadLetter,
		engine.Retry:          engine.RetryLater,
		engine.Park:           engine.ParkLater,
		engine.Unsettled:      engine.Leave,
		engine.Decided:        engine.Ack,
		engine.Decided + 1:    engine.Leave,
	} {
		if got := outcome.Settlement(); got != want {
			t.Errorf("%q: %d, want %d", outcome, got, want)
		}
	}
	if name := engine.Decided.String(); name != "decided" {
		t.Error(name)
	}
}
