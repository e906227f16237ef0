package broker

import (
	"keyfold/engine/notify"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// ReplayEvent returns the message that brings the event of a dead letter back to the
// workers. One whose type cannot be read goes straight to the bulk queue: no queue is
// bound for its key.
func ReplayEvent(l *deadletter.Letter) rabbit.Message {
	if t := notify.ParseEventType(l.Kind); t != 0 {
		return l.ReplayTo(EventsExchange, eventKey(t), false)
	}
	return l.ReplayTo("", Bulk().Queue, false)
}

// ReplayReport returns the message that brings the delivery report of a dead letter back
// to the workers.
func ReplayReport(l *deadletter.Letter) rabbit.Message {
	status := "unknown" // any word has a queue
	if s := notify.ParseStatus(l.Kind); s != 0 {
		status = s.String()
	}
	return l.ReplayTo(DeliveryExchange, deliveryKeyPrefix+status, false)
}
