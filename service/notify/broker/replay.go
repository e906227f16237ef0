package broker

import (
	"context"

	"keyfold/engine/notify"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// ReplayEvents brings the events of dead letters back to the workers. One whose type
// cannot be read goes straight to the bulk queue: no queue is bound for its key.
func ReplayEvents(ctx context.Context, p *rabbit.Publisher, letters []*deadletter.Letter) []error {
	return replay(ctx, p, letters, func(l *deadletter.Letter) rabbit.Message {
		if t := notify.ParseEventType(l.Kind); t != 0 {
			return l.ReplayTo(EventsExchange, eventKey(t), false)
		}
		return l.ReplayTo("", Bulk().Queue, false)
	})
}

// ReplayReports brings the delivery reports of dead letters back to the workers.
func ReplayReports(ctx context.Context, p *rabbit.Publisher, letters []*deadletter.Letter) []error {
	return replay(ctx, p, letters, func(l *deadletter.Letter) rabbit.Message {
		status := "unknown" // any word has a queue
		if s := notify.ParseStatus(l.Kind); s != 0 {
			status = s.String()
		}
		return l.ReplayTo(DeliveryExchange, deliveryKeyPrefix+status, false)
	})
}

// replay publishes the messages that bring letters back, with the errors of publish.
func replay(ctx context.Context, p *rabbit.Publisher, letters []*deadletter.Letter, message func(*deadletter.Letter) rabbit.Message) []error {
	messages := make([]rabbit.Message, len(letters))
	for i, l := range letters {
		messages[i] = message(l)
	}
	return publish(ctx, p, ReasonNoEventQueue, messages)
}
