package engine_test

import (
	"testing"

	"keyfold/engine"
)

type verdicts []engine.Verdict

func (v *verdicts) Settle(verdict engine.Verdict) { *v = append(*v, verdict) }

// A delivery has one verdict, the first; the next delivery has its own.
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
