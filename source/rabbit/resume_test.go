package rabbit

import (
	"context"
	"testing"
	"time"

	"keyfold/engine"
)

// Events that wait in process (the delay queue is missing) come again after a
// pause, also where they are more than half of the prefetch.
func TestResumeWithMostOfThePrefetchWaitingInProcess(t *testing.T) {
	s := shared(t)
	s.publish(s.messages(8)...)
	config := s.config()
	config.Prefetch, config.RetryDelay, config.MaxRetries = 8, 500*time.Millisecond, 1
	var in inbox
	r := s.run(config, in.deliver)
	eventually(t, "delivered", func() bool { return in.len() == 8 })
	for _, d := range in.take() {
		d.Settler.Settle(engine.Verdict{Outcome: engine.Park, Err: engine.ErrAway})
	}
	r.Pause() // the store's breaker opens
	time.Sleep(time.Second)
	r.Resume() // and closes
	time.Sleep(5 * time.Second)
	t.Logf("ready: %v, unacked %d", r.Ready(), r.Stats.Unacked.Load())
	if in.len() == 0 {
		t.Errorf("nothing came again, nothing is consumed, and readiness says %v", r.Ready())
	}
	for _, d := range in.take() {
		d.Settler.Settle(folded)
	}
	_ = context.Background
}
