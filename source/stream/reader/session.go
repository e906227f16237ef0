package reader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/stream"
	"keyfold/source/stream/inhand"
)

// Why a session ended, besides a lost connection.
var (
	// errLeft: an event got no verdict, and only a new session brings it again.
	errLeft = errors.New("streams: an event was left unsettled: the stream is read again from it")
	// errCopies: a copy was not confirmed in time.
	errCopies = errors.New("streams: a copy of an event was not confirmed within 30 s: the stream is read again from it")
	// errRewound: the position was set back.
	errRewound = errors.New("streams: the position was set back: the stream is read again from it")
	errClosed  = errors.New("streams: closed")
)

// ReasonChanged is the reason where the stream is not the one that the position is of.
const ReasonChanged = "stream_changed"

// session is one reading of a stream, from its position on.
type session struct {
	reader  *streamReader
	stream  rabbit.Stream
	id      profile.StreamID
	began   profile.Position
	set     *inhand.Set
	outside *consume.Outside

	ending sync.Once
	reason error         // set before ended is closed
	ended  chan struct{} // closed when nothing more is handed over

	mu    sync.Mutex
	trail trail  // under mu
	next  uint64 // under mu: one above the last offset that was handed over

	// All below is only used by handle.
	checked    bool // the first chunk was compared
	deliveries []profile.Delivery
	arrived    []inhand.Event
	refused    []refused
	slab       []event // those that are not used yet
	outlines   outlines
	texts      texts
}

// refused is a message that is no event.
type refused struct {
	message stream.Message
	offset  uint64
	cause   error
}

func (r *streamReader) newSession(at profile.Position) *session {
	id, next := r.stream.ID(at.Epoch.Number), max(at.Offset, at.Epoch.From)
	return &session{
		reader: r, stream: r.stream, id: id, began: at, next: next,
		set: inhand.New(id, next), outside: r.owner.ports.Outside(), ended: make(chan struct{}),
	}
}

// fail ends the session. Verdicts that come later still count: what they settle is done.
func (s *session) fail(reason error) {
	s.ending.Do(func() {
		s.reason = reason
		s.outside.End()
		s.reader.owner.held.add(-s.set.End())
		close(s.ended)
	})
}

func (s *session) over() bool { return rabbit.IsClosed(s.ended) }

// position returns where a session after this one begins.
func (s *session) position() profile.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.trail) == 0 {
		return s.began
	}
	at := s.trail.at(s.set.Position())
	at.Rewinds, at.Epoch = s.began.Rewinds, s.began.Epoch
	return at
}

// oldest is when the oldest chunk was stored that has an event in hand; 0 where none has.
func (s *session) oldest() engine.Millis {
	if held, _ := s.set.Held(); held == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.trail) == 0 {
		return 0
	}
	return s.trail.at(s.set.Position()).Chunk.Timestamp
}

// InHand implements [profile.Reader].
func (s *session) InHand(user int32) []profile.Place { return s.set.InHand(user) }

// copyTimeout bounds the wait for the confirms of copies.
const copyTimeout = 30 * time.Second

// AwaitCopies implements [profile.Reader]. Where it takes too long the session ends, as the
// events whose copies are unknown have to be read again.
func (s *session) AwaitCopies(ctx context.Context, user int32) {
	waiting, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	s.set.AwaitCopies(waiting, user)
	if waiting.Err() != nil && ctx.Err() == nil {
		s.fail(errCopies)
	}
}

// settle takes an event out of what is in hand.
func (s *session) settle(offset uint64) { s.reader.owner.held.add(-s.set.Settle(offset)) }

// handle takes one chunk: whatever of it lies at the position or above is handed over.
func (s *session) handle(ctx context.Context, c *stream.Chunk) error {
	if err := s.check(c); err != nil {
		return err
	}
	if err := s.reader.owner.passGate(ctx); err != nil {
		return err
	}
	if err := s.handOver(ctx, c); err != nil {
		return err
	}
	s.reader.owner.Stats.Chunks.Add(1)
	return nil
}

// check compares the first chunk with the position's. One that stands elsewhere, or is another,
// is of a stream that was made anew, or lost its end; a later one says what retention took.
func (s *session) check(c *stream.Chunk) error {
	if s.checked {
		return nil
	}
	s.checked = true
	if err := differs(s.began, c); err != nil {
		return s.changed(err)
	}
	if c.First > s.began.Offset {
		s.reader.truncated(c.First-s.began.Offset, s.began.Offset)
	}
	return nil
}

// differs returns what shows that a stream is another one than the position is of; nil: nothing
// does. c is the first chunk that comes from the position's on, nil where none does.
func differs(at profile.Position, c *stream.Chunk) error {
	switch want := at.Chunk; {
	case want == (profile.Fingerprint{}) && at.Offset == 0:
	case c == nil:
		return fmt.Errorf("its chunk at offset %d is not there", want.First)
	case c.First < want.First, c.First == want.First && fingerprintOf(c) != want:
		return fmt.Errorf("at offset %d stands another chunk than the one that was read", want.First)
	}
	return nil
}

func (s *session) changed(cause error) error {
	return engine.ConfigurationError(ReasonChanged, fmt.Errorf(
		"stream %s is another one than position %d is of: %w; it was deleted and made anew, or lost its end. Nothing is read from it until it is accepted: %s",
		s.reader.name, s.began.Offset, cause, profile.AcceptCommand))
}

// handOver parses a chunk's events and hands them on. Nothing keeps the chunk's memory.
func (s *session) handOver(ctx context.Context, c *stream.Chunk) error {
	s.mu.Lock()
	s.trail = append(s.trail, fingerprintOf(c))
	next := s.next
	s.mu.Unlock()
	next, err := s.parse(c, next)
	if err != nil {
		return err
	}
	c.Free()
	s.mu.Lock()
	s.next = next
	s.mu.Unlock()
	s.reader.owner.held.add(s.set.DeliverAll(s.arrived))
	for _, r := range s.refused {
		s.refuse(r.message, r.offset, r.cause)
	}
	s.reader.owner.Stats.Delivered.Add(int64(len(s.deliveries)))
	if err := failpoint.Hit(failpoint.Delivered); err != nil {
		return err
	}
	if len(s.deliveries) == 0 {
		return nil
	}
	if err := s.reader.deliver(ctx, s.deliveries); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return deliverError{err}
	}
	return nil
}

// parse makes deliveries of a chunk's events from an offset on. It returns the offset behind
// the last one.
func (s *session) parse(c *stream.Chunk, from uint64) (next uint64, err error) {
	now := time.Now()
	clear(s.refused)
	s.deliveries, s.arrived, s.refused = s.deliveries[:0], s.arrived[:0], s.refused[:0]
	next = from
	err = c.Each(func(offset uint64, m stream.Message) error {
		if offset < next {
			return nil
		}
		next = offset + 1
		d, err := s.delivery(c, offset, m, now)
		if err != nil {
			s.arrived = append(s.arrived, inhand.Event{Offset: offset, Bytes: int32(eventBytes + wholeBytes + m.Size())})
			s.refused = append(s.refused, refused{m.Clone(), offset, err})
			return nil //nolint:nilerr // it becomes a dead letter
		}
		s.arrived = append(s.arrived, inhand.Event{Offset: offset, User: d.Event.UserID, Bytes: int32(d.Bytes)})
		s.deliveries = append(s.deliveries, d)
		return nil
	})
	return next, err
}

// refuse dead-letters a message that is no event.
func (s *session) refuse(m stream.Message, offset uint64, cause error) {
	s.reader.owner.Stats.Malformed.Add(1)
	s.set.Copy(offset, 0)
	s.outside.Refuse(s.original(m, offset), cause, func() { s.settle(offset) })
}

// Add implements [consume.Chunk] for events that waited in process for their next attempt.
func (s *session) Add(o *rabbit.Original, a consume.Arrival) error {
	e, err := consume.EventOf(o, time.Now())
	if err != nil {
		return err
	}
	s.deliveries = append(s.deliveries, profile.Delivery{
		Event: e, Place: s.reader.names().Place(o), Reader: s, FirstSeen: a.FirstSeen,
		Attempt: a.Attempt, Last: a.Last, RetryDelay: a.RetryDelay, Trace: a.Trace, Settler: a.Settler,
	})
	return nil
}

// Len implements [consume.Chunk].
func (s *session) Len() int { return len(s.deliveries) }

// HandOver implements [consume.Chunk].
func (s *session) HandOver(ctx context.Context) error { return s.reader.deliver(ctx, s.deliveries) }

var _ consume.Chunk = (*session)(nil)
