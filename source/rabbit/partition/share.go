package partition

import (
	"context"
	"errors"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit"
)

// Share is a worker's part of what several workers read, each item by one of them: streams.
// What it may read it locks, by an exclusive queue on its connection. Nothing depends on it: an
// item that two workers read costs conflicts.
type Share struct {
	dialer rabbit.Dialer
	names  rabbit.Names // those of the shared queues
	tag    string

	conn       *amqp.Connection
	socket     *rabbit.Socket
	membership *Membership
	ended      chan struct{}
	ending     sync.Once
	watches    sync.WaitGroup
}

// sharedQueue has the workers of one store counted.
func sharedQueue(store string) rabbit.Names { return rabbit.Names{Queue: "keyfold.read." + store} }

// NewShare returns the share of a worker that writes to this store: workers of another one
// read everything too.
func NewShare(dialer rabbit.Dialer, store, tag string) *Share {
	dialer.Timing = dialer.Timing.OrDefaults()
	return &Share{dialer: dialer, names: sharedQueue(store), tag: tag}
}

// Open connects and has the worker counted.
func (s *Share) Open(ctx context.Context) (err error) {
	s.ended, s.ending = make(chan struct{}), sync.Once{}
	if s.conn, s.socket, err = s.dialer.Dial(ctx); err != nil {
		return err
	}
	lost := s.conn.NotifyClose(make(chan *amqp.Error, 1))
	s.watches.Go(func() {
		for range lost {
			continue
		}
		s.end()
	})
	defer context.AfterFunc(ctx, s.socket.Abort)()
	if err = s.declare(); err == nil {
		s.membership, err = Join(Session{
			Conn: s.conn, Names: s.names, Tag: s.tag, Bounded: s.bounded, Go: s.watches.Go,
			Watch: func(channel *amqp.Channel) {
				closed := channel.NotifyClose(make(chan *amqp.Error, 1))
				s.watches.Go(func() {
					for range closed {
						continue
					}
					s.end()
				})
			},
		})
	}
	if err != nil {
		s.Close(ctx)
	}
	return err
}

// declare makes the queue by which workers are counted. It keeps no message.
func (s *Share) declare() error {
	defer s.bounded()()
	channel, err := s.conn.Channel()
	if err != nil {
		return rabbit.Fault("open a channel", err)
	}
	queue := s.names.LayoutExchange()
	if _, err = channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-max-length": int32(1)}); err != nil {
		return rabbit.Fault("declare queue "+queue, err)
	}
	return channel.Close()
}

func (s *Share) bounded() (release func() bool) {
	return s.socket.Bound(s.dialer.Timing.Connect)
}

func (s *Share) end() { s.ending.Do(func() { close(s.ended) }) }

// Ended is closed when the locks are lost.
func (s *Share) Ended() <-chan struct{} { return s.ended }

// Close lets everything go.
func (s *Share) Close(ctx context.Context) {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.dialer.Timing.Connect)
	defer cancel()
	rabbit.CloseBounded(ctx, s.conn, s.socket)
	s.watches.Wait()
	s.conn = nil
}

// Poll counts the workers again, and returns which of so many items are this one's.
func (s *Share) Poll(items int) (mine []bool, workers int, err error) {
	if err := s.membership.Poll(); err != nil {
		return nil, 0, err
	}
	mine = make([]bool, items)
	for i, owner := range owners(items, s.membership.Workers) {
		mine[i] = owner == s.membership.Number
	}
	return mine, s.membership.Workers, nil
}

// Settled reports whether no worker has come or gone of late.
func (s *Share) Settled() bool { return s.membership.Settled() }

// Lock takes an item, and reports false where another worker has it still.
func (s *Share) Lock(item string) (bool, error) {
	defer s.bounded()()
	channel, err := s.conn.Channel()
	if err != nil {
		return false, rabbit.Fault("open a channel", err)
	}
	_, err = channel.QueueDeclare(s.lock(item), false, false, true, false, nil)
	_ = channel.Close()
	if refusal, ok := errors.AsType[*amqp.Error](err); ok && refusal.Code == amqp.ResourceLocked {
		return false, nil
	}
	if err != nil {
		return false, rabbit.Fault("declare queue "+s.lock(item), err)
	}
	return true, nil
}

// Unlock lets an item go.
func (s *Share) Unlock(item string) error {
	defer s.bounded()()
	channel, err := s.conn.Channel()
	if err != nil {
		return rabbit.Fault("open a channel", err)
	}
	if _, err = channel.QueueDelete(s.lock(item), false, false, false); err != nil {
		return rabbit.Fault("delete queue "+s.lock(item), err)
	}
	return channel.Close()
}

func (s *Share) lock(item string) string { return s.names.Queue + "." + item }
