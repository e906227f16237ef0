package consume

import (
	"errors"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// Of two verdicts on one delivery the first one counts, whichever they are.
//
// Promise(rabbitmq/verdicts): A delivery takes its first verdict and no other; one that comes again
// has its own.
func TestSettledTwice(t *testing.T) {
	verdicts := []engine.Verdict{
		folded,
		{Outcome: engine.Retry, Err: errors.New("503")},
		{Outcome: engine.Dead, Reason: "broken", Err: errors.New("broken")},
		{Outcome: engine.Park, Err: engine.ErrAway},
		{Outcome: engine.Unsettled},
	}
	host := shared(t) // one virtual host for all of them
	for _, first := range verdicts {
		for _, second := range verdicts {
			t.Run(first.Outcome.String()+" and "+second.Outcome.String(), func(t *testing.T) {
				s := &site{host.On(t)}
				s.purge(s.Names.Queue, s.Names.DeadLetters) // of what is left of the verdicts before
				s.Publish(s.Messages(2)...)
				var in inbox
				r := s.run(s.config(), in.deliver)
				sitetest.Eventually(t, "both are delivered", func() bool { return in.len() == 2 })
				all := in.take()
				all[0].Settler.Settle(first)
				all[0].Settler.Settle(second)
				if first.Outcome == engine.Retry || first.Outcome == engine.Park {
					sitetest.Eventually(t, "it comes again", func() bool { return in.len() == 1 })
					again := in.take()[0]
					all[0].Settler.Settle(second) // on the earlier delivery
					again.Settler.Settle(folded)
				}
				all[1].Settler.Settle(folded)
				acked := map[bool]int64{true: 1, false: 2}[first.Outcome == engine.Unsettled]
				sitetest.Eventually(t, "what has a final verdict is acknowledged", func() bool { return r.Stats.Acked.Load() == acked })
				if err := r.end(sitetest.Ample); err != nil {
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
				if n := s.Depth(s.Names.DeadLetters); n != int(of(engine.Dead)) {
					t.Errorf("%d dead letters", n)
				}
				if n := s.Depth(s.Names.Queue); n != int(of(engine.Unsettled)) {
					t.Errorf("%d messages went back to the queue", n)
				}
			})
		}
	}
}

// purge empties queues.
func (s *site) purge(queues ...string) {
	s.T.Helper()
	ch := s.Channel()
	for _, queue := range queues {
		if _, err := ch.QueuePurge(queue, false); err != nil {
			s.T.Fatal(err)
		}
	}
}

// An application is told what may have been worked on before.
func TestArrivalSaysRedelivered(t *testing.T) {
	for what, s := range map[string]*settler{
		"": {}, "by the broker": {redelivered: true}, "retried": {attempts: 1}, "parked": {failures: []rabbit.Failure{{}}},
	} {
		s.session = &session{config: &Config{}}
		if s.arrival().Redelivered != (what != "") {
			t.Errorf("redelivered %q: told %t", what, what == "")
		}
	}
}
