package rabbit

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/failpoint"
)

// ReasonParkedTooLong is the reason of an event whose work lacked what it needs
// for longer than [MaxParked].
const ReasonParkedTooLong = "parked_too_long"

// MaxParked is how long an event waits for what it needs, from its first failure.
const MaxParked = 24 * time.Hour

// maxFailures is how many failures of one event are told.
const maxFailures = 10

// Failure is one failed attempt.
type Failure struct {
	At  engine.Millis
	Err error
}

// settler acknowledges, retries or dead-letters one message. Where its session has
// ended, verdicts are dropped: the broker delivers the message again.
type settler struct {
	session *session
	channel *consumerChannel
	tag     uint64
	message Original
	event   engine.Event // none where the message was refused
	arrived time.Time    // when it was delivered, or its wait in process was over
	lease   *lease
	size    int // bytes, until it is acknowledged

	// Only used by the one goroutine that works on the message: the reader, the
	// one that settles, a retry, or the dead-letterer.
	attempts  int           // behind it, all failed
	firstSeen engine.Millis // see [engine.Delivery]
	failures  []Failure     // the first one and the last ones
}

// delivery returns the event on its way to the worker.
func (t *settler) delivery() engine.Delivery {
	config := &t.session.consumer.config
	return engine.Delivery{
		Event: t.event, FirstSeen: t.firstSeen, Arrived: t.arrived,
		Attempt: t.attempts + 1, Last: t.attempts >= config.MaxRetries, RetryDelay: retryDelay(config.RetryDelay, t.attempts),
		Bytes: t.size, Settler: engine.Once(t),
	}
}

// Settle takes the verdict. It never blocks on the broker.
func (t *settler) Settle(v engine.Verdict) {
	switch v.Outcome {
	case engine.Folded, engine.Duplicate, engine.ProductMissing, engine.UserErased:
		t.ack()
	case engine.Dead:
		t.fail(v.Err)
		t.firstSeen = max(v.AbsentAt, t.firstSeen)
		t.session.consumer.deadLetters.add(t, cmp.Or(v.Reason, engine.ReasonOf(v.Err)))
	case engine.Retry:
		t.fail(v.Err)
		t.firstSeen = max(v.AbsentAt, t.firstSeen)
		t.retry(v.Err)
	case engine.Park:
		t.fail(v.Err)
		t.firstSeen = max(v.AbsentAt, t.firstSeen)
		t.park(v.Err)
	default:
		t.session.hold()
	}
}

// ack has the message acknowledged, unless its session has ended: the broker
// took it back then, and delivers it again under another tag.
func (t *settler) ack() {
	if err := failpoint.Hit(failpoint.BeforeAck); err != nil {
		t.session.end(err)
	}
	t.lease.end()
	if !t.channel.acks.settle(t.tag) {
		t.session.consumer.Stats.Stale.Add(1)
	}
	t.session.bytes.Add(-int64(t.size))
	t.message.Body = nil // windows keep the settler for longer
	t.session.release()
}

// drop counts a message whose session has ended.
func (t *settler) drop() {
	t.session.consumer.Stats.Stale.Add(1)
	t.session.release()
}

func (t *settler) fail(err error) {
	if err == nil {
		err = errors.New("unknown")
	}
	if len(t.failures) == maxFailures {
		t.failures = append(t.failures[:1], t.failures[2:]...)
	}
	t.failures = append(t.failures, Failure{At: engine.Now(), Err: err})
}

// retry has the event tried again, or dead-letters it when its attempts are used up.
func (t *settler) retry(cause error) {
	c := t.session.consumer
	if t.attempts >= c.config.MaxRetries {
		c.Stats.Exhausted.Add(1)
		t.log("event dead-lettered: retries exhausted", cause)
		c.deadLetters.add(t, engine.ReasonRetriesExhausted)
		return
	}
	delay := retryDelay(c.config.RetryDelay, t.attempts)
	t.attempts++
	c.Stats.Retried.Add(1)
	t.redeliver(delay)
}

// park has the event wait with no attempt used, longer each time up to as long as a
// retry may: what it needs is away. After a day it is dead-lettered, with all that is known of why.
func (t *settler) park(cause error) {
	c := t.session.consumer
	since := t.failures[0].At
	if engine.Now()-since >= engine.Millis(MaxParked.Milliseconds()) {
		c.Stats.Exhausted.Add(1)
		t.log("event dead-lettered: parked for too long", cause)
		c.deadLetters.add(t, ReasonParkedTooLong)
		return
	}
	c.Stats.Parked.Add(1)
	t.redeliver(min(retryDelay(c.config.RetryDelay, len(t.failures)-1), longestDelay(c.config.RetryDelay, c.config.MaxRetries)))
}

// redeliver has the event delivered again after a delay.
func (t *settler) redeliver(delay time.Duration) {
	c := t.session.consumer
	if t.firstSeen == 0 {
		t.firstSeen = engine.MillisOf(t.arrived)
	}
	// The message is not ours any more once it is parked. Its waiting is not
	// waited for at shutdown, unless the parking says so.
	s := t.session
	c.ports.Retries.Park(Attempt{Delay: delay, settler: t})
	s.release()
}

func (t *settler) log(text string, err error) {
	e := &t.event
	t.session.consumer.ports.Log.Error(text, slog.Int("user_id", int(e.UserID)), slog.String("message_id", e.MessageID),
		slog.String("event_type", e.Type.String()), slog.Int("attempt", t.attempts+1), slog.Any("error", err))
}

var _ engine.Settler = (*settler)(nil)
