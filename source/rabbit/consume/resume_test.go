package consume

import (
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/sitetest"
)

// Events that wait in process (the delay queue is missing) come again after a
// pause, also where they are more than half of the prefetch.
func TestResumeWithMostOfThePrefetchWaitingInProcess(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(8)...)
	config := s.config()
	config.Prefetch, config.RetryDelay, config.MaxRetries = 8, 2*time.Second, 1
	var in inbox
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 8 })
	for _, d := range in.take() {
		d.Settler.Settle(engine.Verdict{Outcome: engine.Park, Err: engine.ErrAway})
	}
	r.Pause() // the store's breaker opens
	s.unsubscribed()
	time.Sleep(3 * time.Second) // they are due
	r.Resume()                  // and closes
	sitetest.Eventually(t, "all of them come again", func() bool { return in.len() >= 8 })
	for _, d := range in.take() {
		d.Settler.Settle(folded)
	}
}
