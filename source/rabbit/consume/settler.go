package consume

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/source/rabbit"
)

// ReasonParkedTooLong is the reason of an event whose work lacked what it needs
// for longer than [MaxParked].
const ReasonParkedTooLong = "parked_too_long"

// MaxParked is how long an event waits for what it needs, from its first failure.
const MaxParked = 24 * time.Hour

// settler acknowledges, retries or dead-letters one message. Where its session has
// ended, verdicts are dropped: the broker delivers the message again.
type settler struct {
	// Set by the reader when the message is received.
	session *session
	channel *consumerChannel
	tag     uint64
	size    int // bytes, until it is acknowledged

	redelivered bool // the broker had delivered it before
	malformed   bool // the application refused it
	end         settlement

	// Only used by the one goroutine that works on the message: the reader, the
	// one that settles, then the one that publishes its copy, and the reader again
	// after a wait in process.
	message   rabbit.Original // without its body once it is acknowledged
	arrived   time.Time       // when it was delivered, or its wait in process was over
	lease     *lease
	attempts  int              // behind it, all failed
	firstSeen engine.Millis    // see [profile.Delivery]
	failures  []rabbit.Failure // the first one and the last ones
}

// arrival returns what the application is told of the message.
func (t *settler) arrival() Arrival {
	config := t.session.config
	return Arrival{
		FirstSeen: t.firstSeen, Arrived: t.arrived,
		Attempt: t.attempts + 1, Last: t.attempts >= config.MaxRetries, RetryDelay: rabbit.RetryDelay(config.RetryDelay, t.attempts),
		Redelivered: t.redelivered || t.attempts > 0 || len(t.failures) > 0,
		Bytes:       t.size, Trace: t.message.Trace(), Settler: engine.Once(t),
	}
}

// Settle takes the verdict. It never blocks on the broker.
func (t *settler) Settle(v engine.Verdict) {
	switch v.Outcome.Settlement() {
	case engine.Ack:
		t.end = settlement{outcome: v.Outcome}
		t.ack()
	case engine.DeadLetter:
		t.fail(v)
		t.session.deadLetters.add(t, cmp.Or(v.Reason, engine.ReasonOf(v.Err)))
	case engine.RetryLater:
		t.fail(v)
		t.retry(v.Err)
	case engine.ParkLater:
		t.fail(v)
		t.park(v.Err)
	case engine.Leave:
		if t.channel.left.Load() {
			t.drop() // the broker has it back already
			return
		}
		t.session.hold()
	}
}

// ack has the message acknowledged, unless its session has ended: the broker
// took it back then, and delivers it again under another tag.
func (t *settler) ack() {
	s := t.session
	if err := failpoint.Hit(failpoint.BeforeAck); err != nil {
		s.end(err)
	}
	t.lease.end()
	if !t.channel.settle(t) {
		s.stats.Stale.Add(1)
	}
	s.bytes.Add(-int64(t.size))
	t.message.Body = nil // windows keep the settler for longer
	s.release()
}

// fail notes a failed attempt.
func (t *settler) fail(v engine.Verdict) {
	if v.Err == nil {
		v.Err = errors.New("unknown")
	}
	if len(t.failures) == rabbit.MaxFailures {
		t.failures = append(t.failures[:1], t.failures[2:]...)
	}
	t.failures = append(t.failures, rabbit.Failure{At: engine.Now(), Err: v.Err})
	t.firstSeen = max(v.AbsentAt, t.firstSeen)
}

// retry has the event tried again, or dead-letters it when its attempts are used up.
func (t *settler) retry(cause error) {
	config := t.session.config
	if t.attempts >= config.MaxRetries {
		t.giveUp(engine.ReasonRetriesExhausted, "event dead-lettered: retries exhausted", cause)
		return
	}
	delay := rabbit.RetryDelay(config.RetryDelay, t.attempts)
	if t.attempts == 0 {
		t.session.stats.RetriedEvents.Add(1)
	}
	t.end = settlement{outcome: engine.Retry}
	t.attempts++
	t.session.stats.Retried.Add(1)
	t.redeliver(delay)
}

// park has the event wait with no attempt used, because a dependency is down: longer
// each time, up to as long as a retry may. After a day it is dead-lettered.
func (t *settler) park(cause error) {
	config := t.session.config
	if engine.Now()-t.failures[0].At >= engine.Millis(MaxParked.Milliseconds()) {
		t.giveUp(ReasonParkedTooLong, "event dead-lettered: parked for too long", cause)
		return
	}
	t.end = settlement{outcome: engine.Park}
	t.session.stats.Parked.Add(1)
	t.redeliver(rabbit.RetryDelay(config.RetryDelay, min(len(t.failures)-1, max(config.MaxRetries-1, 0))))
}

func (t *settler) giveUp(reason, text string, cause error) {
	s := t.session
	subject := s.config.Describe(&t.message)
	s.stats.Exhausted.Add(1)
	attrs := append([]slog.Attr{
		subject.LogUser(), slog.String("message_id", subject.ID),
		slog.String("event_type", subject.Kind), slog.Int("attempt", t.attempts+1), slog.Any("error", cause),
		slog.String("hint", "cure the error, then replay the dead letter: "+s.config.Names.ShowCommand().String()+" with the message_id shows it"),
	}, t.message.Trace().LogAttrs()...)
	s.log.LogAttrs(context.Background(), slog.LevelError, text, attrs...)
	s.deadLetters.add(t, reason)
}

// redeliver has the event delivered again after a delay. Retries owns the message
// from then on, and says whether a stop waits for it.
func (t *settler) redeliver(delay time.Duration) {
	if t.firstSeen == 0 {
		t.firstSeen = engine.MillisOf(t.arrived)
	}
	s := t.session
	s.retries.park(t, delay)
	s.release()
}

// drop counts a message whose session has ended before its letter was stored.
func (t *settler) drop() {
	t.session.stats.Stale.Add(1)
	t.session.release()
}

// replaced acknowledges the message: a copy, confirmed by the broker, took its
// place.
func (t *settler) replaced() {
	t.session.occupy()
	t.ack()
}

// again delivers the event once more. Where its session has ended the broker has
// delivered it already. Until the reader takes it no goroutine works on it: Close
// does not wait for it.
func (t *settler) again() {
	s := t.session
	if s.over() || t.channel.left.Load() {
		s.waitingInProcess.Add(-1)
		s.bytes.Add(-int64(t.size))
		s.stats.Stale.Add(1)
		return
	}
	s.mu.Lock()
	s.requeued = append(s.requeued, t)
	s.mu.Unlock()
	signal(s.wake)
}

// hold leaves a message unacknowledged.
func (s *session) hold() {
	s.stats.Held.Add(1)
	s.toGiveBack.Add(1)
	s.release()
}

// occupy and release count the messages a stop has to wait for.
func (s *session) occupy() { s.unsettled.Add(1) }

func (s *session) release() {
	if s.unsettled.Add(-1) == 0 {
		signal(s.settledAll)
	}
}

var _ engine.Settler = (*settler)(nil)
