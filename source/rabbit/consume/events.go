package consume

import (
	"bytes"
	"context"
	"strconv"
	"time"
	"unicode/utf8"

	"keyfold/engine/profile"
	"keyfold/source/rabbit"
)

// This file holds all that the package knows of the events that are folded into
// profiles. Another application has its own [Chunk] and its own [Describe].

// eventNames tell the copies of streams' events.
var eventNames = rabbit.DefaultNames()

// EventOf reads the message's event. The id that stands in the body counts, then
// the AMQP property, and only then one made from the fields.
func EventOf(o *rabbit.Original, now time.Time) (profile.Event, error) {
	e, err := profile.ParseEvent(o.Body, now)
	if err == nil {
		nameAfter(&e, o)
	}
	return e, err
}

// EventOutlined does what [EventOf] does; the event may keep the body: see
// [profile.ParseEventOutlined].
func EventOutlined(o *rabbit.Original, now time.Time, room []byte) (profile.Event, profile.Outlined, error) {
	e, outlined, err := profile.ParseEventOutlined(o.Body, now, room)
	if err == nil {
		nameAfter(&e, o)
	}
	return e, outlined, err
}

// nameAfter gives an event the property's id where its body has none.
func nameAfter(e *profile.Event, o *rabbit.Original) {
	if o.ID == "" || o.ID == e.MessageID {
		return
	}
	if madeID(o, e.MessageID) && utf8.ValidString(o.ID) && utf8.RuneCountInString(o.ID) <= profile.MaxMessageRunes {
		e.MessageID = o.ID
		e.Digest = profile.DigestOf(e.MessageID)
	}
}

// madeID reports whether an id was made by the parser: it has the form of one,
// and the body does not hold it.
func madeID(o *rabbit.Original, id string) bool {
	return len(id) == 64 && !bytes.Contains(o.Body, []byte(id))
}

// DescribeEvent returns the subject of an event that was parsed before. The id is the
// event's: see [profile.ParseEvent] for one that was made from the fields.
func DescribeEvent(o *rabbit.Original) Subject {
	e, err := EventOf(o, time.Now())
	if err != nil {
		return Subject{ID: o.ID, NumericUser: true}
	}
	return Subject{ID: e.MessageID, User: strconv.Itoa(int(e.UserID)), Kind: e.Type.String(), NumericUser: true}
}

// Events returns chunks of events that go to deliver.
func Events(deliver profile.Deliver) func() Chunk {
	return func() Chunk {
		return &events{deliver: deliver, deliveries: make([]profile.Delivery, 0, maxChunk)}
	}
}

type events struct {
	deliver    profile.Deliver
	deliveries []profile.Delivery
}

func (c *events) Add(o *rabbit.Original, a Arrival) error {
	e, err := EventOf(o, a.Arrived)
	if err != nil {
		return err
	}
	c.deliveries = append(c.deliveries, profile.Delivery{
		Event: e, FirstSeen: a.FirstSeen, Arrived: a.Arrived,
		Attempt: a.Attempt, Last: a.Last, RetryDelay: a.RetryDelay, Trace: a.Trace,
		Bytes: a.Bytes, Settler: a.Settler, Place: eventNames.Place(o),
	})
	return nil
}

func (c *events) Len() int { return len(c.deliveries) }

func (c *events) HandOver(ctx context.Context) error {
	err := c.deliver(ctx, c.deliveries)
	c.deliveries = c.deliveries[:0]
	return err
}
