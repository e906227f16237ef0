package rabbit

import (
	"errors"
	"testing"

	"keyfold/engine"
)

// Of two verdicts on one delivery the first one counts, whichever they are.
func TestSettledTwice(t *testing.T) {
	verdicts := []engine.Verdict{
		folded,
		{Outcome: engine.Retry, Err: errors.New("503")},
		{Outcome: engine.Dead, Reason: "broken", Err: errors.New("broken")},
		{Outcome: engine.Park, Err: engine.ErrAway},
		{Outcome: engine.Unsettled},
	}
	for _, first := range verdicts {
		for _, second := range verdicts {
			t.Run(first.Outcome.String()+" and "+second.Outcome.String(), func(t *testing.T) {
				s := shared(t)
				s.publish(s.messages(2)...)
				var in inbox
				r := s.run(s.config(), in.deliver)
				eventually(t, "both are delivered", func() bool { return in.len() == 2 })
				all := in.take()
				all[0].Settler.Settle(first)
				all[0].Settler.Settle(second)
				if first.Outcome == engine.Retry || first.Outcome == engine.Park {
					eventually(t, "it comes again", func() bool { return in.len() == 1 })
					again := in.take()[0]
					all[0].Settler.Settle(second) // on the earlier delivery
					again.Settler.Settle(folded)
				}
				all[1].Settler.Settle(folded)
				acked := map[bool]int64{true: 1, false: 2}[first.Outcome == engine.Unsettled]
				eventually(t, "what has a final verdict is acknowledged", func() bool { return r.Stats.Acked.Load() == acked })
				if err := r.end(ample); err != nil {
					t.Error(err)
				}
				if in.len() != 0 || r.Stats.Acked.Load() != acked || r.last != nil {
					t.Errorf("%d more deliveries, %d acknowledged", in.len(), r.Stats.Acked.Load())
				}
				of := func(o engine.Outcome) int64 { return map[bool]int64{true: 1, false: 0}[first.Outcome == o] }
				if c := &r.Stats; c.Retried.Load() != of(engine.Retry) || c.Parked.Load() != of(engine.Park) ||
					c.DeadLetters.Load() != of(engine.Dead) || c.Held.Load() != of(engine.Unsettled) {
					t.Errorf("retried %d, parked %d, dead %d, held %d", c.Retried.Load(), c.Parked.Load(), c.DeadLetters.Load(), c.Held.Load())
				}
				if n := s.depth(s.names.DeadLetters); n != int(of(engine.Dead)) {
					t.Errorf("%d dead letters", n)
				}
				if n := s.depth(s.names.Queue); n != int(of(engine.Unsettled)) {
					t.Errorf("%d messages went back to the queue", n)
				}
			})
		}
	}
}

// An application is told what may have been worked on before.
func TestArrivalSaysRedelivered(t *testing.T) {
	for what, s := range map[string]*settler{
		"": {}, "by the broker": {redelivered: true}, "retried": {attempts: 1}, "parked": {failures: []Failure{{}}},
	} {
		s.session = &session{config: &Config{}}
		if s.arrival().Redelivered != (what != "") {
			t.Errorf("redelivered %q: told %t", what, what == "")
		}
	}
}
