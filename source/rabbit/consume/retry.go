package consume

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit"
)

// Retries keeps an event whose own work failed for now until it is to be tried
// again: [DelayQueues] or [InProcess].
type Retries interface {
	// park takes a message over. It is called from the settling goroutine and must
	// not block. Once the delay is over, exactly one of the settler's methods again
	// and replaced follows; or neither, where the process stops.
	park(t *settler, delay time.Duration)
}

// InProcess keeps parked events in memory, unacknowledged. They take prefetch
// as long as they wait, and a lost connection gives them back with no attempt
// counted. Their leases begin anew when they are delivered: the worker is not to
// blame for the time in between.
type InProcess struct{}

func (InProcess) park(t *settler, delay time.Duration) {
	t.session.waitingInProcess.Add(1)
	t.lease.end()
	time.AfterFunc(delay, t.again)
}

// copyTo returns the message that takes this one's place elsewhere: the
// original's body and properties, except for an expiration and a user, which
// hold for the original only. Where the original has no id the copy has the
// event's: returned copies are told apart by it.
func (t *settler) copyTo(exchange, key string) rabbit.Message {
	m := t.message.Message
	m.Exchange, m.RoutingKey, m.Headers = exchange, key, t.copyHeaders()
	if m.ID == "" {
		if id := t.session.config.Describe(&t.message).ID; len(id) <= rabbit.MaxShortString {
			m.ID = id
		}
	}
	return m
}

// copyHeaders returns the original's headers, and keyfold's of how far the event got.
func (t *settler) copyHeaders() amqp.Table {
	headers := t.message.CarriedHeaders()
	delete(headers, rabbit.HeaderReason)
	delete(headers, rabbit.HeaderFirstExchange)
	headers[rabbit.HeaderFirstSeen] = int64(t.firstSeen)
	headers[rabbit.HeaderAttempts] = int64(t.attempts)
	headers[rabbit.HeaderExchange] = t.message.Origin()
	headers[rabbit.HeaderErrors] = rabbit.EncodeFailures(t.failures)
	return headers
}
