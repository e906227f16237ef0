package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"keyfold/engine/backoff"
)

// Publisher publishes on a connection of its own, which no consumer shares: an
// alarm makes the broker stop reading from connections that publish, and
// acknowledgements must not wait behind it. Publish may be called from several
// goroutines.
type Publisher struct {
	Stats PublisherStats

	dialer Dialer
	log    *slog.Logger
	turn   chan struct{} // held while the fields below are used
	live   *link
	pause  backoff.Backoff
	retry  time.Time // no connection attempt before
	closed bool

	refusal error // of the connection attempt that failed last
}

// NewPublisher returns a publisher that connects when it has something to send.
// purpose stands in the connection's name.
func NewPublisher(dsn string, who Identity, purpose string, timing Timing, log *slog.Logger) *Publisher {
	timing = timing.OrDefaults()
	return &Publisher{
		dialer: Dialer{DSN: dsn, Name: who.Connection(purpose), Timing: timing},
		log:    log.With("component", "rabbit"),
		turn:   make(chan struct{}, 1),
		pause:  backoff.Backoff{Min: timing.BackoffMin, Max: timing.BackoffMax},
	}
}

var errPublisherClosed = errors.New("rabbitmq: publisher is closed")

// Publish sends messages and waits for the broker to take each over. The answer
// is aligned with messages: nil once the message is the broker's to keep;
// [engine.ErrUnknown] where it may be (no confirm within ctx, connection lost);
// [engine.ErrUnroutable] where no queue wanted it; [engine.ErrRefused]; a configuration error
// where the broker refuses the connection. All else was not sent and is
// transient. ctx is to have a deadline: during an alarm the broker reads
// nothing, and Publish waits.
//
// A return is matched by exchange, routing key and id.
func (p *Publisher) Publish(ctx context.Context, messages []Message) []error {
	errs := make([]error, len(messages))
	if len(messages) == 0 {
		return errs
	}
	l, err := p.link(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	l.publish(ctx, messages, errs)
	return errs
}

// link returns the live link, connecting where there is none. After a failure
// the next attempt waits for the backoff.
func (p *Publisher) link(ctx context.Context) (*link, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("rabbitmq: publish: %w", ctx.Err())
	}
	if p.closed {
		return nil, errPublisherClosed
	}
	if p.live != nil {
		if p.live.alive() {
			return p.live, nil
		}
		p.log.Debug("publishing connection lost", slog.String("connection", p.dialer.Name))
		p.live = nil
	}
	if !backoff.Sleep(ctx, time.Until(p.retry)) {
		err := fmt.Errorf("rabbitmq: publish: waiting to connect again: %w", ctx.Err())
		if time.Now().Before(p.retry) {
			err = fmt.Errorf("%w: %w", err, p.refusal)
		}
		return nil, err
	}
	l, err := openLink(ctx, p.dialer, &p.Stats)
	if err != nil {
		p.retry, p.refusal = time.Now().Add(p.pause.Next()), err
		// The caller gets the error, and says what it means for its messages.
		p.log.Debug("publishing connection failed", slog.String("connection", p.dialer.Name), slog.Any("error", err))
		return nil, err
	}
	p.pause.Reset()
	p.live = l
	return l, nil
}

// Close ends the connection in order, by force when ctx ends or has ended.
// Publish calls still under way see a lost connection.
func (p *Publisher) Close(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
	default:
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-p.turn }()
	p.closed = true
	if p.live != nil {
		p.live.close(ctx)
		p.live = nil
	}
	return nil
}
