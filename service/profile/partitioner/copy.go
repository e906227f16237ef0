package partitioner

import (
	"cmp"
	"errors"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// copyOf returns the message that takes the original's place in its user's partition:
// the same body and properties, and the headers that a worker reads.
func copyOf(names rabbit.Names, o *rabbit.Original, a consume.Arrival, e *profile.Event) rabbit.Message {
	m := o.Message
	bySlot := names.SlotMessage(o.Body, e)
	m.Exchange, m.RoutingKey = bySlot.Exchange, bySlot.RoutingKey
	m.ID = cmp.Or(m.ID, bySlot.ID) // returned messages are told apart by it
	m.Headers = o.CarriedHeaders()
	for _, name := range []string{rabbit.HeaderReason, rabbit.HeaderFirstExchange, rabbit.HeaderAttempts, rabbit.HeaderFirstSeen} {
		delete(m.Headers, name)
	}
	m.Headers[rabbit.HeaderExchange] = o.Origin()
	if len(o.Failures()) > 0 {
		m.Headers[rabbit.HeaderErrors] = o.Headers[rabbit.HeaderErrors]
	}
	if attempts := a.Attempt - 1; attempts > 0 {
		m.Headers[rabbit.HeaderAttempts] = int64(attempts)
	}
	if since := firstSeen(a, e); since > 0 {
		m.Headers[rabbit.HeaderFirstSeen] = int64(since)
	}
	return m
}

// firstSeen returns the time at which the event was not folded for sure, 0 where the copy
// needs none. An earlier delivery may have been published by a process that ended before
// the acknowledgement, at a time that is not known any more: the stage may have been away
// for longer than profiles keep ids. But no event is published that is further in the
// future than [profile.MaxFutureMillis].
//
// The time of an event that occurred long ago is far below the real one, and a worker may
// have to dead-letter the copy as past_horizon. A mark "a stage was alive at T", kept at
// the broker, is no later bound that holds:
//   - The message may have been copied by a stage before the one that wrote the mark, and
//     have waited or been delivered to several stages since.
//   - A stage that stops has cancelled its consumer and still holds messages, while the
//     next one consumes and would write marks.
//   - The broker confirms no acknowledgement. One that is lost with its connection brings
//     back a message that the writer of the mark counted as moved.
//
// A mark would be safe only after a period in which no message came again and in which
// every delivery from before has ended by a lease and a heartbeat. Stages that are killed
// more often than that would write none. A record of each message before its copy is
// published would be safe at once, but has no entry of a message that a stage held and had
// not published, and its absence proves nothing once old records are dropped.
func firstSeen(a consume.Arrival, e *profile.Event) engine.Millis {
	if a.FirstSeen == 0 && a.Redelivered {
		return max(1, e.OccurredAt-profile.MaxFutureMillis)
	}
	return min(a.FirstSeen, engine.MillisOf(a.Arrived)) // a publisher's clock may be ahead
}

// mayBeStored reports whether a queue may have the message whose publication had this
// error.
func mayBeStored(err error) bool {
	return err == nil || errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrUnknown)
}
