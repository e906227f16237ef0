package rabbit

import (
	"encoding/hex"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// This file holds all that the package knows of the events that are folded into
// profiles. Another application has its own names.

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
func (n Names) RoutingKey(t profile.EventType) string { return "user.embedding." + t.String() }

// priority is that of an ordinary event, in the middle of the queue's range.
const priority = 5

// EventMessage returns the message of an event: body as it entered, the
// properties and the routing key from what was read from it.
func (n Names) EventMessage(body []byte, event *profile.Event) Message {
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
func (n Names) SlotMessage(body []byte, event *profile.Event) Message {
	m := n.EventMessage(body, event)
	m.Exchange, m.RoutingKey = n.Slots, n.SlotKey(engine.SlotOf(event.UserID))
	return m
}

// propertyID returns the id a message is known by: the event's own, or its digest
// where the protocol has no room for that, 128 characters being up to 512 bytes.
// The body keeps the id itself, which is what counts.
func propertyID(event *profile.Event) string {
	if len(event.MessageID) <= MaxShortString {
		return event.MessageID
	}
	return hex.EncodeToString(event.Digest[:])
}
