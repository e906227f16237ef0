package broker

import (
	"keyfold/engine/cure"
	"keyfold/engine/notify"
	"keyfold/source/rabbit"
)

// The topic exchanges.
const (
	EventsExchange   = "notifications"         // events; key notification.<type>
	DispatchExchange = "notification_dispatch" // to the senders; key dispatch.<first channel>.<type>
	DeliveryExchange = "notification_delivery" // from the senders; key delivery.<status>
)

// Commands that logs and errors name.
const (
	setupCommand      cure.Name = "broker.Setup"
	showCommand       cure.Name = "broker.Show"
	showReportCommand cure.Name = "broker.ShowReport"
)

const (
	eventsQueue       = "notification_events"
	deliveriesQueue   = "notification_deliveries"
	failedSuffix      = "_failed"
	eventKeyPrefix    = "notification."
	dispatchKeyPrefix = "dispatch."
	deliveryKeyPrefix = "delivery."
)

// Urgent returns the names of the queue of urgent events. It shares its dead letters
// with [Bulk].
func Urgent() rabbit.Names { return events(eventsQueue+"_urgent", true) }

// Bulk returns the names of the queue of all other events.
func Bulk() rabbit.Names { return events(eventsQueue, false) }

func events(queue string, urgent bool) rabbit.Names {
	n := rabbit.Names{
		Exchange: EventsExchange, Queue: queue, DeadLetters: eventsQueue + failedSuffix,
		Setup: setupCommand, Show: showCommand,
	}
	for _, t := range notify.EventTypes {
		if t.Urgent() == urgent {
			n.Bindings = append(n.Bindings, eventKey(t))
		}
	}
	return n
}

// Deliveries returns the names of the queue of delivery reports.
func Deliveries() rabbit.Names {
	return rabbit.Names{
		Exchange: DeliveryExchange, Queue: deliveriesQueue, DeadLetters: deliveriesQueue + failedSuffix,
		Bindings: []string{deliveryKeyPrefix + "*"}, Setup: setupCommand, Show: showReportCommand,
	}
}

// Inputs returns the names of all queues that keyfold consumes.
func Inputs() []rabbit.Names { return []rabbit.Names{Urgent(), Bulk(), Deliveries()} }

// DispatchQueue returns the queue that the senders of a channel consume.
func DispatchQueue(c notify.Channel) string { return DispatchExchange + "." + c.String() }

// dispatches returns the names of a channel's queue, which has no dead letters of its
// own: keyfold does not consume it.
func dispatches(c notify.Channel) rabbit.Names {
	return rabbit.Names{
		Exchange: DispatchExchange, Queue: DispatchQueue(c), Bindings: []string{dispatchKeyPrefix + c.String() + ".*"}, Setup: setupCommand,
	}
}

func eventKey(t notify.EventType) string { return eventKeyPrefix + t.String() }
