package consume

import (
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// Outside has the retries, parked events and dead letters of events that came by no queue go
// the consumer's way: a copy takes the event's place, and a queue brings it back. It is one
// session of their source.
type Outside struct {
	session *session
	channel *consumerChannel

	mu   sync.Mutex
	done map[*settler]func() // under mu: what settles an event, once its copy is confirmed
}

// NewOutside returns a session that begins. The consumer must be run, for its dead letters.
func (c *Consumer) NewOutside() *Outside {
	s := &session{
		generation: c.generation.Add(1), opened: time.Now(),
		config: &c.config, stats: &c.Stats, accounting: &c.Accounting, log: c.ports.Log, gate: c.gate, sizes: c.sizes,
		retries: c.ports.Retries, deadLetters: c.deadLetters,
		ended: make(chan struct{}), settledAll: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		delivering: make(chan struct{}, 1),
	}
	o := &Outside{session: s, done: map[*settler]func(){}}
	o.channel = &consumerChannel{session: s, outside: o.settled}
	return o
}

// End ends the session: copies that are not published yet never are, and those that are not
// confirmed are not waited for. Its source has the events still.
func (o *Outside) End() { o.session.end(errClosed) }

// Replace gives a verdict other than an acknowledgement on an event. done is called where the
// event's copy is confirmed, in another goroutine; it is not where the session ends before.
func (o *Outside) Replace(message rabbit.Original, v engine.Verdict, done func()) {
	t := &settler{session: o.session, channel: o.channel, message: message, lease: &lease{}, arrived: time.Now()}
	if len(message.Headers) > 0 {
		t.firstSeen = engine.Millis(max(0, message.Integer(rabbit.HeaderFirstSeen)))
		t.attempts = int(max(0, min(message.Integer(rabbit.HeaderAttempts), MaxPrefetch)))
		t.failures = message.Failures()
	}
	o.session.occupy()
	o.mu.Lock()
	o.done[t] = done
	o.mu.Unlock()
	t.Settle(v)
}

// Refuse has an event that its application does not take dead-lettered.
func (o *Outside) Refuse(message rabbit.Original, cause error, done func()) {
	message.CutBody()
	t := &settler{session: o.session, channel: o.channel, message: message, lease: &lease{}, arrived: time.Now()}
	o.session.occupy()
	o.mu.Lock()
	o.done[t] = done
	o.mu.Unlock()
	o.session.refuse(t, cause)
}

func (o *Outside) settled(t *settler) {
	o.mu.Lock()
	done := o.done[t]
	delete(o.done, t)
	o.mu.Unlock()
	if done != nil {
		done()
	}
}

// Due is signalled when events that waited in process are to be tried again.
func (o *Outside) Due() <-chan struct{} { return o.session.wake }

// TakeDue adds those events to the chunk.
func (o *Outside) TakeDue(chunk Chunk) { o.session.takeRequeued(chunk) }

// Attempts returns how many attempts follow the first one, and what an event is delivered
// with for an attempt.
func (o *Outside) Attempts(message *rabbit.Original) (attempt int, last bool, delay time.Duration) {
	attempts := int(max(0, min(message.Integer(rabbit.HeaderAttempts), MaxPrefetch)))
	config := o.session.config
	return attempts + 1, attempts >= config.MaxRetries, rabbit.RetryDelay(config.RetryDelay, attempts)
}
