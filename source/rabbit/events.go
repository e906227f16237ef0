package rabbit

import (
	"bytes"
	"context"
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"

	"keyfold/engine"
)

// This file holds all that the package knows of the events that are folded into
// profiles. Another application has its own names, its own [Chunk] and its own
// [Describe].

// DefaultNames returns the names of an installation that was told nothing.
func DefaultNames() Names {
	return Names{
		Exchange:    "user_events",
		Queue:       "user_embedding_updates",
		Bindings:    []string{"user.embedding.*"},
		DeadLetters: "user_embedding_updates_failed",
		Slots:       "user_event_slots",
	}
}

// RoutingKey returns the routing key of events of a type.
func (n Names) RoutingKey(t engine.EventType) string { return "user.embedding." + t.String() }

// priority is that of an ordinary event, in the middle of the queue's range.
const priority = 5

// EventMessage returns the message of an event: body as it entered, the
// properties and the routing key from what was read from it.
func (n Names) EventMessage(body []byte, event *engine.Event) Message {
	return Message{
		Exchange:   n.Exchange,
		RoutingKey: n.RoutingKey(event.Type),
		ID:         propertyID(event),
		Timestamp:  event.OccurredAt.Time(),
		Priority:   priority,
		Body:       body,
	}
}

// SlotMessage returns the message of an event that is published by its user's slot:
// [Names.EventMessage], to the partition that takes the slot's events.
func (n Names) SlotMessage(body []byte, event *engine.Event) Message {
	m := n.EventMessage(body, event)
	m.Exchange, m.RoutingKey = n.Slots, n.SlotKey(engine.SlotOf(event.UserID))
	return m
}

// propertyID returns the id a message is known by: the event's own, or its digest
// where the protocol has no room for that, 128 characters being up to 512 bytes.
// The body keeps the id itself, which is what counts.
func propertyID(event *engine.Event) string {
	if len(event.MessageID) <= maxShortString {
		return event.MessageID
	}
	return hex.EncodeToString(event.Digest[:])
}

// event reads the message's event. The id that stands in the body counts, then
// the AMQP property, and only then one made from the fields.
func (o *Original) event(now time.Time) (engine.Event, error) {
	e, err := engine.ParseEvent(o.Body, now)
	if err != nil || o.ID == "" || o.ID == e.MessageID {
		return e, err
	}
	if o.madeID(e.MessageID) && utf8.ValidString(o.ID) && utf8.RuneCountInString(o.ID) <= engine.MaxMessageRunes {
		e.MessageID = o.ID
		e.Digest = engine.DigestOf(e.MessageID)
	}
	return e, nil
}

// madeID reports whether an id was made by the parser: it has the form of one,
// and the body does not hold it.
func (o *Original) madeID(id string) bool {
	return len(id) == 64 && !bytes.Contains(o.Body, []byte(id))
}

// DescribeEvent returns the subject of an event that was parsed before. The id is the
// event's: see [engine.ParseEvent] for one that was made from the fields.
func DescribeEvent(o *Original) Subject {
	e, err := o.event(time.Now())
	if err != nil {
		return Subject{ID: o.ID, NumericUser: true}
	}
	return Subject{ID: e.MessageID, User: strconv.Itoa(int(e.UserID)), Kind: e.Type.String(), NumericUser: true}
}

// Events returns chunks of events that go to deliver.
func Events(deliver engine.Deliver) func() Chunk {
	return func() Chunk {
		return &events{deliver: deliver, deliveries: make([]engine.Delivery, 0, maxChunk)}
	}
}

type events struct {
	deliver    engine.Deliver
	deliveries []engine.Delivery
}

func (c *events) Add(o *Original, a Arrival) error {
	e, err := o.event(a.Arrived)
	if err != nil {
		return err
	}
	c.deliveries = append(c.deliveries, engine.Delivery{
		Event: e, FirstSeen: a.FirstSeen, Arrived: a.Arrived,
		Attempt: a.Attempt, Last: a.Last, RetryDelay: a.RetryDelay, Trace: a.Trace,
		Bytes: a.Bytes, Settler: a.Settler,
	})
	return nil
}

func (c *events) Len() int { return len(c.deliveries) }

func (c *events) HandOver(ctx context.Context) error {
	err := c.deliver(ctx, c.deliveries)
	c.deliveries = c.deliveries[:0]
	return err
}
