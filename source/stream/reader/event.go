package reader

import (
	"maps"
	"strings"
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
// holds of its delivery: [profile.Held]. Of its message it holds the message id, and the time
// as it was written, which are a third of it: its outline has the rest, and its chunk's memory
// is free. BenchmarkHeld tells what an event takes.
type event struct {
	session    *session
	appended   engine.Millis
	offset     uint64
	occurredAt engine.Millis
	digest     profile.Digest
	outline    *profile.Outline
	texts      string   // message id and time
	whole      *message // in the place of outline and texts, for the few that are unusual
	user       int32
	product    int32
	idBytes    uint16 // of texts
	kind       profile.EventType
	settled    atomic.Bool
}

// message is what is kept of a message that has no outline, or headers, or a phrase.
type message struct {
	stream.Message // a clone

	id        string
	phrase    string
	firstSeen engine.Millis
	trace     *engine.Trace
}

// eventBytes is what an event costs in memory beside its texts, measured: itself, the place in
// its window with a share of the window, and that in the set of what is in hand. It is 180 at
// thirty events of a window, 220 at ten, 260 at two, and 380 at one, a seventh more
// than is reckoned with its texts.
const eventBytes = 320

// wholeBytes is what one costs more that is kept with its message, beside that and its texts.
const wholeBytes = 80

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
		offset := e.offset // alone: the event stands among others, and keeps them
		s.outside.Replace(e.original(), v, func() { s.settle(offset) })
	}
	e.texts, e.whole = "", nil // while other events of its slab are held
}

// Delivery implements [profile.Held].
func (e *event) Delivery() profile.Delivery {
	d := profile.Delivery{
		Event: profile.Event{
			UserID: e.user, ProductID: e.product, Type: e.kind, OccurredAt: e.occurredAt, MessageID: e.texts[:e.idBytes], Digest: e.digest,
		},
		Place: profile.Place{Stream: e.session.id, Offset: e.offset}, Reader: e.session, Appended: e.appended,
		Attempt: 1, Bytes: eventBytes + len(e.texts), Settler: e,
	}
	if m := e.whole; m != nil {
		d.Event.MessageID, d.Event.Phrase, d.FirstSeen, d.Trace = m.id, m.phrase, m.firstSeen, m.trace
		d.Bytes += wholeBytes + len(m.id) + len(m.phrase) + m.Size()
	}
	return d
}

// original returns what a copy carries on: the body is made again where it is not kept.
func (e *event) original() rabbit.Original {
	if e.whole != nil {
		return e.session.original(e.whole.Message, e.offset)
	}
	of := e.Delivery().Event
	body := e.outline.AppendBody(nil, &of, e.texts[e.idBytes:])
	return rabbit.Original{Message: rabbit.Message{Headers: e.session.placed(amqp.Table{}, e.offset), Body: body}}
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

// original returns what a copy of a message carries on.
func (s *session) original(m stream.Message, offset uint64) rabbit.Original {
	body, _ := m.Body() // it was read before
	headers := amqp.Table{}
	if all, err := m.Headers(); err == nil {
		maps.Copy(headers, all)
	}
	return rabbit.Original{Message: rabbit.Message{ID: m.ID(), Headers: s.placed(headers, offset), Body: body}}
}

// placed adds the place in the stream to a copy's headers.
func (s *session) placed(headers amqp.Table, offset uint64) amqp.Table {
	headers[rabbit.HeaderStream] = s.reader.names().FormatPlace(s.stream, s.began.Epoch.Number, offset)
	return headers
}

// delivery parses an event.
func (s *session) delivery(c *stream.Chunk, offset uint64, m stream.Message, now time.Time) (profile.Delivery, error) {
	body, err := m.Body()
	if err != nil {
		return profile.Delivery{}, err
	}
	o := rabbit.Original{Message: rabbit.Message{ID: m.ID(), Body: body}}
	parsed, outlined, err := consume.EventOutlined(&o, now, s.outlines.room)
	if err != nil {
		return profile.Delivery{}, err
	}
	headers, err := m.Headers()
	if err != nil {
		headers = nil
	}
	e := s.newEvent()
	e.session, e.appended, e.offset, e.occurredAt = s, c.Timestamp, offset, parsed.OccurredAt
	e.user, e.product, e.kind, e.digest = parsed.UserID, parsed.ProductID, parsed.Type, parsed.Digest
	if o.ID == "" && parsed.Phrase == "" && len(headers) == 0 {
		e.outline = s.outlines.of(outlined.Outline)
	}
	if e.outline != nil {
		e.idBytes = uint16(len(parsed.MessageID))
		e.texts = s.texts.join(parsed.MessageID, outlined.OccurredAt)
		return e.Delivery(), nil
	}
	o.Headers = headers
	e.whole = &message{m.Clone(), strings.Clone(parsed.MessageID), parsed.Phrase, engine.Millis(max(0, o.Integer(rabbit.HeaderFirstSeen))), o.Trace()}
	return e.Delivery(), nil
}
