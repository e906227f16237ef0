package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/failpoint"
)

// pendingConfirm is a message that was written and has to be confirmed.
type pendingConfirm struct {
	index   int // in the caller's slice
	to      address
	confirm *amqp.DeferredConfirmation
}

// publishBatch is one caller's messages on their way.
type publishBatch struct {
	link    *link
	pending []pendingConfirm
	awaited int     // how many confirms were awaited
	errs    []error // aligned with the caller's messages
}

// publish writes and confirms messages; errs[i] is set for each that was not
// taken over. Writes are gathered until something has to be waited for.
func (l *link) publish(ctx context.Context, messages []Message, errs []error) {
	b := &publishBatch{link: l, pending: make([]pendingConfirm, 0, len(messages)), errs: errs}
	l.socket.Cork()
	for i := range messages {
		err := b.acquireSlot(ctx)
		if err == nil {
			err = b.write(&messages[i], i)
		}
		if err != nil {
			errs[i] = err
			// An alarm or a lost connection meets the others too.
			for j := i + 1; j < len(messages); j++ {
				errs[j] = notSent(err)
			}
			break
		}
	}
	l.socket.Uncork()
	if err := failpoint.Hit(failpoint.Unconfirmed); err != nil {
		l.socket.Abort()
	}
	for b.awaited < len(b.pending) {
		b.awaitConfirm(ctx)
	}
}

// notSent returns the error of a message behind the one that met err.
func notSent(err error) error {
	if errors.Is(err, engine.ErrUnknown) {
		return errLinkLost
	}
	return err
}

// errLate: a message was to be sent later than it may.
var errLate = errors.New("rabbitmq: publish: the message's time is over")

// acquireSlot returns once one more message may be written: no alarm is on, and it
// holds a token.
func (b *publishBatch) acquireSlot(ctx context.Context) error {
	if b.link.open() && b.link.takeToken() {
		return nil
	}
	// Before it waits for confirms, everything has to be sent.
	b.link.socket.Uncork()
	defer b.link.socket.Cork()
	if err := b.link.free(ctx); err != nil {
		return err
	}
	for b.awaited < len(b.pending) {
		if b.link.takeToken() {
			return nil
		}
		b.awaitConfirm(ctx)
	}
	return b.link.waitToken(ctx)
}

// awaitConfirm awaits the oldest message in flight.
func (b *publishBatch) awaitConfirm(ctx context.Context) {
	p := &b.pending[b.awaited]
	b.errs[p.index] = b.link.await(ctx, p)
	b.awaited++
}

func (l *link) takeToken() bool {
	select {
	case l.tokens <- struct{}{}:
		return true
	default:
		return false
	}
}

// waitToken waits until another caller's message lands.
func (l *link) waitToken(ctx context.Context) error {
	select {
	case l.tokens <- struct{}{}:
		return nil
	case <-l.ended:
		return errLinkLost
	case <-ctx.Done():
		return fmt.Errorf("rabbitmq: publish: %d messages await their confirms: %w", maxInFlight, ctx.Err())
	}
}

func (b *publishBatch) write(m *Message, index int) error {
	l := b.link
	// The process may have been frozen at any time before. One that is frozen from here
	// on for longer than the heartbeats last has no connection when it goes on.
	if m.Late(time.Now()) {
		<-l.tokens
		return errLate
	}
	confirm, err := l.channel.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, true, false, m.publishing(l.conn.Config.FrameSize))
	if err != nil {
		<-l.tokens
		if errors.Is(err, amqp.ErrClosed) {
			return errLinkLost
		}
		return fmt.Errorf("rabbitmq: publish: %w: %w", engine.ErrUnknown, err)
	}
	l.stats.Published.Add(1)
	b.pending = append(b.pending, pendingConfirm{index: index, to: address{m.Exchange, m.RoutingKey, m.ID}, confirm: confirm})
	return nil
}

// await returns what became of a message. Its token goes back when the broker
// has answered, which may be after the caller gave up.
func (l *link) await(ctx context.Context, f *pendingConfirm) error {
	acked, err := f.confirm.WaitContext(ctx)
	if err != nil {
		l.stats.Unknown.Add(1)
		go func() {
			f.confirm.Wait()
			l.takeReturn(f.to)
			<-l.tokens
		}()
		err = fmt.Errorf("rabbitmq: publish: no confirm in time: %w: %w", engine.ErrUnknown, err)
		return l.orBlocked(err)
	}
	back, returned := l.takeReturn(f.to)
	<-l.tokens
	switch {
	case returned:
		l.stats.Returned.Add(1)
		return fmt.Errorf("rabbitmq: publish to exchange %q with key %q: %w (%s)",
			back.Exchange, back.RoutingKey, engine.ErrUnroutable, back.ReplyText)
	case acked:
		l.stats.Confirmed.Add(1)
		return nil
	case l.channel.IsClosed():
		// The library completes what is open as refused when the channel ends.
		l.stats.Unknown.Add(1)
		return l.lost(ctx)
	default:
		l.stats.Nacked.Add(1)
		return fmt.Errorf("rabbitmq: publish: %w", engine.ErrRefused)
	}
}

// lost returns the error of a message whose channel ended before the confirm.
func (l *link) lost(ctx context.Context) error {
	err := fmt.Errorf("rabbitmq: publish: connection lost before the confirm: %w", engine.ErrUnknown)
	select {
	case <-l.ended:
	case <-ctx.Done():
		return err
	}
	if l.cause != nil && l.cause.Code == amqp.NotFound {
		return fmt.Errorf("%w: %w: %w", err, ErrNoExchange, l.cause)
	}
	return err
}
