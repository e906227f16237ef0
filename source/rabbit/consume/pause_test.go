package consume

import (
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
)

// A retry that comes due while paused has no reader: Close does not wait for it.
func TestCloseLeavesARetryThatIsDueInAPause(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(1)...)
	var in inbox
	r := s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 1 })
	r.Pause()
	s.unsubscribed()
	in.take()[0].Settler.Settle(engine.Verdict{Outcome: engine.Retry})
	time.Sleep(200 * time.Millisecond) // due after 20 ms
	if err := r.end(sitetest.Ample); err != nil {
		t.Errorf("Close waited for an event nobody was working on: %v", err)
	}
}

// The same between the end of Run and Close, while windows are written.
func TestCloseLeavesARetryThatIsDueWhileStopping(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(1)...)
	var in inbox
	r := s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 1 })
	r.stop()
	must.OK(t, <-r.done)
	r.done <- nil
	// Router.Drain
	in.take()[0].Settler.Settle(engine.Verdict{Outcome: engine.Retry})
	last := r.last
	sitetest.Eventually(t, "the retry due", func() bool {
		last.mu.Lock()
		defer last.mu.Unlock()
		return len(last.requeued) == 1
	})
	if err := r.end(sitetest.Ample); err != nil {
		t.Errorf("Close waited for an event nobody was working on: %v", err)
	}
}

// Verdicts Hold that come while Resume waits for half of the prefetch are given
// back too.
func TestHoldDuringResumeIsGivenBack(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(8)...)
	var in inbox
	config := s.config()
	config.Prefetch = 4
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 4 })
	r.Pause()
	time.Sleep(300 * time.Millisecond)
	r.Resume() // waits: 4 unacked of 4
	time.Sleep(300 * time.Millisecond)
	for _, d := range in.take() {
		d.Settler.Settle(engine.Verdict{Outcome: engine.Unsettled})
	}
	r.Pause() // the fault that goes with them
	time.Sleep(300 * time.Millisecond)
	r.Resume() // cured
	sitetest.Eventually(t, "what was held is delivered again", func() bool { return in.len() > 0 })
}

// Retries that wait in process take up the whole prefetch and come due in a
// pause: resuming does not wait for what only its reader can take.
func TestRetriesDueInAPauseComeAfterIt(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(4)...)
	var in inbox
	config := s.config()
	config.Prefetch = 4
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 4 })
	r.Pause()
	s.unsubscribed()
	for _, d := range in.take() {
		d.Settler.Settle(engine.Verdict{Outcome: engine.Retry})
	}
	time.Sleep(200 * time.Millisecond) // due after 20 ms
	r.Resume()
	sitetest.Eventually(t, "tried again", func() bool { return in.len() == 4 })
	for _, d := range in.take() {
		d.Settler.Settle(folded)
	}
	if err := r.end(sitetest.Ample); err != nil {
		t.Error(err)
	}
}
