package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// Scan is one pass over the dead-letter queue, on a connection of its
// own. A letter that is read is held, and the broker's again when the scan is
// closed, unless it was removed: a scan that is killed loses nothing. What is
// given back stands where it stood in a classic queue; a quorum queue takes it
// back in any order, also where it is given back piece by piece. Letters another
// scan holds are not seen. It is for one goroutine.
//
// Letters are fetched one by one (basic.get) and not consumed: only so does the
// queue say where it ends, and nothing is taken that was not asked for.
type Scan struct {
	// Waiting is how many letters there were when the scan began. It reads no
	// more, so that letters that come back meanwhile are not read again.
	Waiting int
	// Describe is that of [Queue]. It is set before letters are read.
	Describe consume.Describe

	names   rabbit.Names
	channel *rabbit.Channel
	closed  chan *amqp.Error
	cause   *amqp.Error // what the channel ended with, once that was asked for
	removed int
}

// Open connects and looks how many letters there are.
func Open(ctx context.Context, dsn string, names rabbit.Names) (s *Scan, err error) {
	channel, err := rabbit.OpenChannel(ctx, dsn, "tool", "dead letters")
	if err != nil {
		return nil, err
	}
	s = &Scan{names: names, channel: channel, closed: channel.NotifyClose(make(chan *amqp.Error, 1))}
	err = channel.During(ctx, func() error { s.Waiting, err = channel.Ready(names, names.DeadLetters); return err })
	if err != nil {
		_ = channel.Disconnect(ctx)
		return nil, err
	}
	return s, nil
}

// Letters yields the letters from the head of the queue on, and ends with an
// error where ctx ends or the broker is lost.
func (s *Scan) Letters(ctx context.Context) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		for range s.Waiting {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			d, ok, err := s.channel.Get(s.names.DeadLetters, false)
			if err != nil {
				yield(nil, s.lost("read a dead letter", err))
				return
			}
			if !ok || !yield(readLetter(&d, s.Describe), nil) {
				return
			}
		}
	}
}

// Remove takes letters off the queue for good. It is certain once Close has
// returned without an error.
func (s *Scan) Remove(letters ...*Letter) error {
	return s.channel.Gather(func() error {
		for _, l := range letters {
			if err := s.channel.Ack(l.tag, false); err != nil {
				return s.lost("remove a dead letter", err)
			}
			s.removed++
		}
		return nil
	})
}

// lost explains the one end of a channel that a scan brings about by itself.
func (s *Scan) lost(doing string, err error) error {
	if cause := s.ended(); cause != nil {
		err = cause
	}
	if refusal, ok := errors.AsType[*amqp.Error](err); ok && refusal.Code == amqp.PreconditionFailed {
		return fmt.Errorf("rabbitmq: %s: %w; a pass may not take longer than the broker's consumer_timeout "+
			"(30 min by default): what was done is done, run it again with --limit or a higher --rate", doing, err)
	}
	return s.names.Fault(doing, err)
}

const scanCloseTimeout = 10 * time.Second

// Close gives back what was not removed. An error says that removals may not
// have reached the broker: those letters are still there.
func (s *Scan) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), scanCloseTimeout)
	defer cancel()
	// The broker answers once it has done all that was sent before, and a classic
	// queue has back what is given back.
	err := s.channel.Disconnect(ctx)
	if err == nil {
		err = s.ended()
	}
	if err == nil || s.removed == 0 {
		return nil
	}
	return fmt.Errorf("rabbitmq: some of the last of %d letters may not have been removed: %w", s.removed, err)
}

// ended returns the error the channel ended with; nil while it is open, or where
// it was closed in order.
func (s *Scan) ended() error {
	if s.cause == nil && s.channel.IsClosed() {
		s.cause = <-s.closed // told, or closed, as part of every end
	}
	if s.cause == nil {
		return nil
	}
	return s.cause
}
