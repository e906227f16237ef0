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

// event is one event of a session, on its way. It settles itself, and it is all that a window
// holds of its delivery: [profile.Held].
type event struct {
	session    *session
	appended   engine.Millis
	offset     uint64
	message    stream.Message // in its chunk's memory
	occurredAt engine.Millis
	messageID  string // mostly there, too
	digest     profile.Digest
	rare       *rare // nil for nearly all
	user       int32
	product    int32
	kind       profile.EventType
	settled    atomic.Bool
}

// rare is what only searches have, and what was published with headers.
type rare struct {
	phrase    string
	firstSeen engine.Millis
	trace     *engine.Trace
}

// eventBytes is what an event costs in memory beside its message, measured: itself, the
// place in its window with a share of the window, and that in the set of what is in hand.
const eventBytes = 300

// rareBytes is what an event costs more that is not as nearly all are, beside its phrase.
const rareBytes = 64

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
	e.message, e.messageID, e.rare = stream.Message{}, "", nil // others keep its chunk's memory, or none does
}

// Delivery implements [profile.Held].
func (e *event) Delivery() profile.Delivery {
	d := profile.Delivery{
		Event: profile.Event{
			UserID: e.user, ProductID: e.product, Type: e.kind, OccurredAt: e.occurredAt, MessageID: e.messageID, Digest: e.digest,
		},
		Place: profile.Place{Stream: e.session.id, Offset: e.offset}, Reader: e.session, Appended: e.appended,
		Attempt: 1, Bytes: eventBytes + e.message.Size(), Settler: e,
	}
	if e.rare != nil {
		d.Event.Phrase, d.FirstSeen, d.Trace = e.rare.phrase, e.rare.firstSeen, e.rare.trace
		d.Bytes += rareBytes + len(e.rare.phrase)
	}
	return d
}

// slabEvents is how many events are allocated at once: few, as one keeps all, and just as many
// as a block of the allocator has room for.
const slabEvents = 128

// newEvent returns an event that is not used yet.
func (s *session) newEvent() *event {
	if len(s.slab) == 0 {
		s.slab = make([]event, slabEvents)
	}
	e := &s.slab[0]
	s.slab = s.slab[1:]
	return e
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
	parsed, err := consume.EventInPlace(&o, now)
	if err != nil {
		return profile.Delivery{}, err
	}
	e := s.newEvent()
	e.session, e.appended, e.offset, e.message = s, c.Timestamp, offset, m
	e.user, e.product, e.kind, e.occurredAt = parsed.UserID, parsed.ProductID, parsed.Type, parsed.OccurredAt
	e.messageID, e.digest = parsed.MessageID, parsed.Digest
	headers, err := m.Headers()
	if err != nil {
		headers = nil
	}
	if parsed.Phrase != "" || len(headers) > 0 {
		o.Headers = headers
		e.rare = &rare{parsed.Phrase, engine.Millis(max(0, o.Integer(rabbit.HeaderFirstSeen))), o.Trace()}
	}
	return e.Delivery(), nil
}
