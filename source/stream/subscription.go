package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// Offset is where a subscription begins: at the chunk that holds it, whole.
type Offset struct {
	kind  uint16
	value uint64
}

// Where a subscription may begin, besides [At] and [Since].
var (
	First = Offset{kind: 1} // the oldest chunk that is left
	Last  = Offset{kind: 2} // the newest chunk; of an empty stream the next, and the first one may be missed that is stored meanwhile
	Next  = Offset{kind: 3} // what is published from now on
)

// At is the chunk with this offset. Below the first one that is left it is the first chunk,
// and beyond the end it is what comes next, with lower offsets: both without an error.
func At(offset uint64) Offset { return Offset{kind: 4, value: offset} }

// Since is the first chunk that is not older.
func Since(t engine.Millis) Offset { return Offset{kind: 5, value: uint64(t)} }

// Consume says what a subscription brings.
type Consume struct {
	Stream string
	From   Offset
	Credit uint16 // how many chunks are sent before [Subscription.Credit] gives more
	// Handle takes the chunks one after the other, on the subscription's goroutine. Its
	// context ends with the subscription: chunks that wait then are dropped.
	Handle func(context.Context, *Subscription, Chunk)
}

// Subscription brings a stream's chunks. Its methods may be called from several goroutines,
// and from its handler.
type Subscription struct {
	conn   *Conn
	id     byte
	stream string
	chunks handover[Chunk]
	ctx    context.Context // its cause is why the subscription has ended
	end    context.CancelCauseFunc
	done   chan struct{}

	mu      sync.Mutex
	granted int // credits without their chunk yet
}

// maxEntities is how many subscriptions, or publishers, one connection has at most.
const maxEntities = 256

var errTooMany = errors.New("a connection has at most 256 subscriptions and as many publishers")

// Subscribe begins to read a stream.
func (c *Conn) Subscribe(ctx context.Context, consume Consume) (*Subscription, error) {
	doing := fmt.Sprintf("subscribe to stream %q", consume.Stream)
	s := &Subscription{conn: c, stream: consume.Stream, chunks: newHandover[Chunk](), done: make(chan struct{}), granted: int(consume.Credit)}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	if err := c.addSubscription(s, consume.Handle); err != nil {
		return nil, fault(doing, err)
	}
	body := order.AppendUint16(appendString([]byte{s.id}, s.stream), consume.From.kind)
	if consume.From.kind >= 4 {
		body = order.AppendUint64(body, consume.From.value)
	}
	if _, err := c.call(ctx, subscribe, order.AppendUint16(body, consume.Credit)); err != nil {
		c.forget(s)
		s.end(err)
		return nil, fault(doing, err)
	}
	return s, nil
}

func (s *Subscription) run(handle func(context.Context, *Subscription, Chunk)) {
	defer close(s.done)
	s.chunks.run(s.ctx, func(chunk Chunk) bool {
		if s.over() {
			return false
		}
		handle(s.ctx, s, chunk)
		return true
	})
}

// Credit has the broker send n chunks more.
func (s *Subscription) Credit(n uint16) error {
	if s.over() {
		return s.Err()
	}
	s.mu.Lock()
	if s.granted+int(n) > math.MaxUint16 {
		s.mu.Unlock()
		return fmt.Errorf("rabbitmq stream: stream %q: more than %d chunks at once", s.stream, math.MaxUint16)
	}
	s.granted += int(n)
	s.mu.Unlock()
	return s.conn.send(credit, order.AppendUint16([]byte{s.id}, n))
}

// spend takes a chunk's credit, and reports whether there was one.
func (s *Subscription) spend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted--
	return s.granted >= 0
}

// Unsubscribe ends the subscription. The handler may still run: [Subscription.Done] tells
// when it does not.
func (s *Subscription) Unsubscribe(ctx context.Context) error {
	if s.over() {
		return nil
	}
	s.end(ErrClosed)
	_, err := s.conn.call(ctx, unsubscribe, []byte{s.id})
	s.conn.forget(s) // only now may another one have the id
	if err != nil && !errors.Is(err, subscriptionMissing) {
		return fault(fmt.Sprintf("unsubscribe from stream %q", s.stream), err)
	}
	return nil
}

// Done is closed when the subscription has ended and its handler has returned.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Err returns why the subscription has ended, nil before: with the stream's name where the
// broker ended it, the connection's error, or [ErrClosed].
func (s *Subscription) Err() error { return context.Cause(s.ctx) }

func (s *Subscription) over() bool { return rabbit.IsClosed(s.ctx.Done()) }

// addSubscription gives a subscription its id and its goroutine.
func (c *Conn) addSubscription(s *Subscription, handle func(context.Context, *Subscription, Chunk)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := freeID(c, c.subscriptions)
	if err == nil {
		s.id, c.subscriptions[id] = id, s
		c.working.Go(func() { s.run(handle) })
	}
	return err
}

// freeID finds an id. The caller holds mu.
func freeID[T any](c *Conn, used map[byte]T) (byte, error) {
	if c.ended != nil {
		return 0, c.ended
	}
	for id := range maxEntities {
		if _, taken := used[byte(id)]; !taken {
			return byte(id), nil
		}
	}
	return 0, errTooMany
}

func (c *Conn) subscription(id byte) *Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subscriptions[id]
}

// forget drops a subscription, unless another one has its id.
func (c *Conn) forget(s *Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subscriptions[s.id] == s {
		delete(c.subscriptions, s.id)
	}
}
