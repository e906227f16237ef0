package consume

import (
	"errors"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
)

// An alarm stops the publisher, with an error that says so, and not the
// consumer; when it is over, publishing goes on by itself.
//
// Promise(away/memory-alarm): Under the broker's memory alarm consuming and acknowledging go on, and
// publishing waits.
// Promise(rabbitmq/blocked-publish): Publishing has its own connections, writes have deadlines, and
// closing ends by force.
func TestAlarm(t *testing.T) {
	s := newSite(t, sitetest.OwnBroker(t))
	s.Publish(s.Messages(1000)...)
	p := s.Publisher(sitetest.Quick)
	extra := s.Messages(1)
	must.OK(t, errors.Join(p.Publish(sitetest.Within(t, time.Minute), extra)...))
	s.Broker.Alarm(t, true)
	// The broker tells a connection when it publishes, once the alarm has reached it; these
	// messages may be anything.
	sitetest.Eventually(t, "the alarm told", func() bool {
		_ = p.Publish(sitetest.Within(t, 200*time.Millisecond), extra)
		return p.Stats.Blocked.Load() == 1
	})
	err := errors.Join(p.Publish(sitetest.Within(t, 200*time.Millisecond), extra)...)
	if err == nil || errors.Is(err, engine.ErrUnknown) || engine.KindOf(err) != engine.Transient ||
		!strings.Contains(err.Error(), "alarm") || !strings.Contains(err.Error(), "memory") {
		t.Errorf("publishing during an alarm: %v", err)
	}
	r := s.run(s.config(), settleAtOnce)
	sitetest.Eventually(t, "consuming during the alarm", func() bool { return r.Stats.Acked.Load() >= 1000 })

	waiting := make(chan []error)
	go func() { waiting <- p.Publish(sitetest.Within(t, time.Minute), extra) }()
	time.Sleep(50 * time.Millisecond)
	s.Broker.Alarm(t, false)
	if err := errors.Join(<-waiting...); err != nil {
		t.Errorf("after the alarm: %v", err)
	}
	if p.Stats.Blocked.Load() != 0 || p.Stats.Connects.Load() != 1 {
		t.Errorf("blocked %d, connects %d", p.Stats.Blocked.Load(), p.Stats.Connects.Load())
	}
}
