package reader

import (
	"maps"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/stream"
)

// event is one event of a session, on its way. It settles itself.
type event struct {
	session *session
	offset  uint64
	user    int32
	message stream.Message // in its chunk's memory
	settled atomic.Bool
}

// eventBytes is about what an event costs in memory beside its message: the delivery in its
// window, and its place in the set of what is in hand.
const eventBytes = 400

// Settle implements [engine.Settler]. Only the first verdict counts.
func (e *event) Settle(v engine.Verdict) {
	if !e.settled.CompareAndSwap(false, true) {
		return
	}
	s := e.session
	settlement := v.Outcome.Settlement()
	switch {
	case settlement == engine.Ack:
		s.settle(e.offset)
	case settlement == engine.Leave, settlement != engine.DeadLetter && v.AbsentAt == 0:
		// A copy has a bound, and there is none: the event is read again.
		s.fail(errLeft)
	default:
		s.set.Copy(e.offset, e.user)
		s.outside.Replace(s.original(e.message, e.offset), v, func() { s.settle(e.offset) })
	}
	e.message = stream.Message{}
}

// original returns what a copy carries on.
func (s *session) original(m stream.Message, offset uint64) rabbit.Original {
	body, _ := m.Body() // it was read before
	headers := amqp.Table{}
	if all, err := m.Headers(); err == nil {
		maps.Copy(headers, all)
	}
	headers[rabbit.HeaderStream] = s.reader.names().FormatPlace(s.stream, offset)
	return rabbit.Original{Message: rabbit.Message{ID: m.ID(), Headers: headers, Body: body}}
}

// delivery parses an event.
func (s *session) delivery(c *stream.Chunk, offset uint64, m stream.Message, now time.Time) (profile.Delivery, error) {
	body, err := m.Body()
	if err != nil {
		return profile.Delivery{}, err
	}
	o := rabbit.Original{Message: rabbit.Message{ID: m.ID(), Body: body}}
	e, err := consume.EventOf(&o, now)
	if err != nil {
		return profile.Delivery{}, err
	}
	d := profile.Delivery{
		Event: e, Place: profile.Place{Stream: s.id, Offset: offset}, Reader: s, Appended: c.Timestamp,
		Attempt: 1, Bytes: eventBytes + len(body),
		Settler: &event{session: s, offset: offset, user: e.UserID, message: m},
	}
	if headers, err := m.Headers(); err == nil && len(headers) > 0 {
		o.Headers = headers
		d.FirstSeen, d.Trace = engine.Millis(max(0, o.Integer(rabbit.HeaderFirstSeen))), o.Trace()
	}
	return d, nil
}
