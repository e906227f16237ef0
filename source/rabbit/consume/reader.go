package consume

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/source/rabbit"
)

// maxChunk is how many events are handed over at once.
const maxChunk = 256

// deliverError is an error of the consumer's user.
type deliverError struct{ error }

// read hands over the deliveries of all channels until they have ended or were
// cancelled because changed was closed.
func (s *session) read(ctx context.Context, changed <-chan struct{}, chunks func() Chunk) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-s.ended:
			cancel(s.reason) // frees a HandOver that waits for room
		case <-done:
		}
	}()
	var reading sync.WaitGroup
	var paused atomic.Int64
	for _, l := range s.channels {
		reading.Go(func() {
			if err := l.read(ctx, changed, chunks()); errors.Is(err, errPaused) {
				paused.Add(1)
			} else {
				cancel(err) // the first one counts
			}
		})
	}
	reading.Wait()
	if int(paused.Load()) == len(s.channels) {
		return errPaused
	}
	return context.Cause(ctx)
}

// read hands over the deliveries of one channel until its consumers are to be changed by
// others. ctx ends with the session.
func (l *consumerChannel) read(ctx context.Context, changed <-chan struct{}, chunk Chunk) error {
	reading, stop := untilClosed(ctx, changed)
	defer stop()
	for {
		select {
		case <-reading.Done():
			return l.endReading(ctx, chunk)
		case <-l.change:
			if l.partition != nil {
				return errPaused // see partitionConsumer.run
			}
			if err := l.refill(ctx); err != nil {
				return err
			}
		case <-l.session.wake:
			l.session.takeRequeued(chunk)
		case d, ok := <-l.main.deliveries:
			l.take(chunk, &l.main, d, ok)
		case d, ok := <-l.more.deliveries:
			l.take(chunk, &l.more, d, ok)
		}
		if err := l.handOver(ctx, chunk); err != nil {
			return err
		}
	}
}

// untilClosed returns a context that ends with ctx, and when c is closed.
func untilClosed(ctx context.Context, c <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-c:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// endReading cancels the consumers, unless they are a partition's, and hands over what the
// library has buffered: resuming takes effect once the buffer is empty.
func (l *consumerChannel) endReading(ctx context.Context, chunk Chunk) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.partition != nil:
		return errPaused // the consumer stays: see partitionConsumer.run
	}
	l.unsubscribe()
	for {
		if err := l.handOver(ctx, chunk); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d, ok := <-l.main.deliveries:
			l.take(chunk, &l.main, d, ok)
		case d, ok := <-l.more.deliveries:
			l.take(chunk, &l.more, d, ok)
		}
	}
}

// take adds a delivery of a consumer, and those behind it, to the chunk; ok is false where the
// consumer has ended. The next one of a partition follows the main one.
func (l *consumerChannel) take(chunk Chunk, from *subscription, d amqp.Delivery, ok bool) {
	if ok {
		l.gather(chunk, d, from.deliveries)
		return
	}
	from.deliveries = nil
	if from == &l.main && l.next.tag != "" {
		l.main, l.next = l.next, subscription{}
		l.partition.previousTags = l.last
		l.acks.renew(l.last)
	}
}

// handOver hands over what was added to the chunk. It fails where no more can come.
func (l *consumerChannel) handOver(ctx context.Context, chunk Chunk) error {
	s := l.session
	s.noteReceived(l.count, l.bytes)
	l.count, l.bytes = 0, 0
	if l.main.deliveries == nil && l.more.deliveries == nil {
		return l.drained()
	}
	if chunk.Len() == 0 {
		s.relieve()
		return nil
	}
	if err := failpoint.Hit(failpoint.Delivered); err != nil {
		return err
	}
	s.delivering <- struct{}{} // one channel at a time; HandOver ends with ctx
	err := chunk.HandOver(ctx)
	<-s.delivering
	if err != nil {
		return deliverError{err}
	}
	s.relieve()
	return nil
}

// drained tells why there are no more deliveries: the consumer was cancelled
// here, or a watcher is about to say.
func (l *consumerChannel) drained() error {
	if l.main.tag == "" && !l.session.over() {
		return errPaused
	}
	<-l.session.ended
	return l.session.reason
}

// gather adds d and what else is there, without waiting.
func (l *consumerChannel) gather(chunk Chunk, d amqp.Delivery, deliveries <-chan amqp.Delivery) {
	now := time.Now()
	if s := l.session; s.socket.Frozen(now) {
		s.end(rabbit.ErrFrozen) // d may have been another consumer's for long
		return
	}
	yielded := false
	l.receive(chunk, &d, now)
	for chunk.Len() < maxChunk {
		select {
		case next, ok := <-deliveries:
			if !ok {
				return // met again by the caller
			}
			yielded = false
			l.receive(chunk, &next, now)
		default:
			// The library hands over one by one: its goroutine may have more
			// and only need its turn.
			if yielded {
				return
			}
			yielded = true
			runtime.Gosched()
		}
	}
}

// receive adds one message to the chunk, or has it dead-lettered.
func (l *consumerChannel) receive(chunk Chunk, d *amqp.Delivery, now time.Time) {
	s, stats := l.session, l.session.stats
	stats.Delivered.Add(1)
	l.acks.receive()
	stats.Unacked.Add(1)
	l.unacked.Add(1)
	l.last = max(l.last, d.DeliveryTag)
	if l.partition != nil {
		l.partition.note(d.RoutingKey)
	}
	s.occupy()
	if d.Redelivered {
		stats.Redelivered.Add(1)
	}
	t := &settler{
		session: s, channel: l, tag: d.DeliveryTag, redelivered: d.Redelivered,
		message: rabbit.OriginalOf(d), arrived: now, lease: l.leases.begin(),
	}
	if len(d.Headers) > 0 {
		t.firstSeen = engine.Millis(max(0, t.message.Integer(rabbit.HeaderFirstSeen)))
		t.attempts = int(max(0, min(t.message.Integer(rabbit.HeaderAttempts), MaxPrefetch)))
		t.failures = t.message.Failures()
		s.noteDeliveries(t, t.message.Integer(rabbit.HeaderDeliveries))
	}
	l.count++
	l.bytes += int64(messageBytes + len(d.Body))
	t.size = messageBytes + len(t.message.Body)
	err := chunk.Add(&t.message, t.arrival())
	if err != nil {
		t.message.CutBody()
		t.size = messageBytes + len(t.message.Body)
	}
	s.bytes.Add(int64(t.size))
	if err != nil {
		s.refuse(t, err)
	}
}

// refuse dead-letters a message that the application does not take.
func (s *session) refuse(t *settler, err error) {
	s.stats.Malformed.Add(1)
	t.malformed = true
	t.fail(engine.Verdict{Err: err})
	// It is never folded: it may wait for its letter for as long as that takes.
	t.lease.end()
	s.deadLetters.add(t, engine.ReasonOf(err))
}

// takeRequeued adds messages whose retry is due. Each is parsed again: nothing of the
// application's is kept while it waits.
func (s *session) takeRequeued(chunk Chunk) {
	s.mu.Lock()
	n := min(len(s.requeued), maxChunk)
	due := s.requeued[:n:n]
	s.requeued = s.requeued[n:]
	if len(s.requeued) > 0 {
		signal(s.wake)
	}
	s.mu.Unlock()
	now := time.Now()
	for _, t := range due {
		s.waitingInProcess.Add(-1)
		if t.channel.left.Load() {
			s.bytes.Add(-int64(t.size))
			s.stats.Stale.Add(1)
			continue
		}
		s.occupy()
		// Its bound says until when it was not folded, as that of a copy does.
		t.arrived = now
		t.lease = t.channel.leases.begin()
		if err := chunk.Add(&t.message, t.arrival()); err != nil {
			s.refuse(t, err)
		}
	}
}
