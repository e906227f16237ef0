package rabbit

import (
	"cmp"
	"encoding/hex"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// appID is what keyfold's messages name as their application.
const appID = "keyfold"

// priority is that of an ordinary event, in the middle of the queue's range.
const priority = 5

// Properties are those a producer may set and keyfold carries on.
type Properties struct {
	ContentType     string // default application/json
	ContentEncoding string // default utf-8
	AppID           string // default keyfold
	Type            string
	CorrelationID   string
	ReplyTo         string
}

// Message is one message to publish. It is persistent.
type Message struct {
	Exchange   string // "" is the default exchange: the key names the queue
	RoutingKey string
	ID         string // of the event
	Timestamp  time.Time
	Priority   uint8
	Properties Properties
	Headers    amqp.Table // of AMQP field types; may be nil
	Body       []byte
}

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

// propertyID returns the id a message is known by: the event's own, or its digest
// where the protocol has no room for that, 128 characters being up to 512 bytes.
// The body keeps the id itself, which is what counts.
func propertyID(event *engine.Event) string {
	if len(event.MessageID) <= maxShortString {
		return event.MessageID
	}
	return hex.EncodeToString(event.Digest[:])
}

func (m *Message) publishing() amqp.Publishing {
	p := &m.Properties
	return amqp.Publishing{
		Headers:         m.Headers,
		ContentType:     cmp.Or(p.ContentType, "application/json"),
		ContentEncoding: cmp.Or(p.ContentEncoding, "utf-8"),
		Type:            p.Type,
		CorrelationId:   p.CorrelationID,
		ReplyTo:         p.ReplyTo,
		DeliveryMode:    amqp.Persistent,
		Priority:        m.Priority,
		Timestamp:       m.Timestamp,
		MessageId:       m.ID,
		AppId:           cmp.Or(p.AppID, appID),
		Body:            m.Body,
	}
}
