package broker

import (
	"context"
	"encoding/json"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// EventMessage returns the message of an event: its text with its event_id.
func EventMessage(e *notify.Notification) rabbit.Message {
	return rabbit.Message{
		Exchange: EventsExchange, RoutingKey: eventKey(e.Type), ID: e.ID.String(), Timestamp: e.Timestamp.Time(), Body: e.Body,
	}
}

// Describe reads the subject of an event or of a delivery report, also of one that is
// refused, as far as it can be read.
func Describe(o *rabbit.Original) consume.Subject {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(o.Body, &fields) // without fields all is ""
	first := func(names ...string) (text string) {
		for _, name := range names {
			if json.Unmarshal(fields[name], &text) == nil && text != "" {
				return text
			}
		}
		return ""
	}
	return consume.Subject{
		ID: first("event_id", "decision_id"), User: first("user_id"), Kind: first("event_type", "status"),
	}
}

// Events returns chunks of events that go to deliver. Events are parsed at the time
// that now returns; what does not parse goes to the dead letters.
func Events(deliver func(context.Context, []processor.Delivery) error, now func() engine.Millis) func() consume.Chunk {
	return func() consume.Chunk { return &eventChunk{deliver: deliver, now: now} }
}

type eventChunk struct {
	deliver    func(context.Context, []processor.Delivery) error
	now        func() engine.Millis
	deliveries []processor.Delivery
}

func (c *eventChunk) Add(o *rabbit.Original, a consume.Arrival) error {
	e, err := notify.Parse(o.Body, c.now())
	if err != nil {
		return err
	}
	c.deliveries = append(c.deliveries, processor.Delivery{Event: e, Redelivered: a.Redelivered, Attempt: a.Attempt, Last: a.Last, RetryDelay: a.RetryDelay, Settler: settler{a.Settler}})
	return nil
}

func (c *eventChunk) Len() int { return len(c.deliveries) }

func (c *eventChunk) HandOver(ctx context.Context) error {
	err := c.deliver(ctx, c.deliveries)
	clear(c.deliveries)
	c.deliveries = c.deliveries[:0]
	return err
}

// settler takes verdicts on decisions to the settler of a message.
type settler struct{ message engine.Settler }

func (s settler) Settle(v processor.Verdict) {
	verdict := engine.Verdict{Outcome: settlements[v.Outcome], Err: v.Err}
	if v.Outcome == processor.Retry && v.Stored() {
		// Only the hand-over failed: the event is not to blame and no attempt is used.
		verdict.Outcome = engine.Park
	}
	if v.Outcome == processor.Dead {
		verdict.Reason = engine.ReasonOf(v.Err)
	}
	s.message.Settle(verdict)
}

// settlements are the outcomes of messages, by those of deliveries.
var settlements = map[processor.Outcome]engine.Outcome{
	processor.Decided:   engine.Decided,
	processor.Known:     engine.Decided,
	processor.Dead:      engine.Dead,
	processor.Retry:     engine.Retry,
	processor.Park:      engine.Park,
	processor.Unsettled: engine.Unsettled,
}
