package rabbit

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// Retries keeps an event whose own work failed for now until it is to be tried
// again.
type Retries interface {
	// Park takes an attempt over. It is called from the settling goroutine and
	// must not block. Once its delay is over, exactly one of the attempt's
	// methods Again and Replaced follows; or neither, where the process stops.
	Park(a Attempt)
}

// Attempt is the next attempt of one event. Its message stays unacknowledged
// until the attempt is replaced or its verdict is final.
type Attempt struct {
	Delay   time.Duration
	settler *settler
}

// Message returns what the broker delivered.
func (a Attempt) Message() *Original { return &a.settler.message }

// Again delivers the event once more. Where its session has ended the broker
// has delivered it already.
func (a Attempt) Again() { a.settler.session.requeue(a.settler) }

// Replaced acknowledges the message: a copy, confirmed by the broker, took its
// place.
func (a Attempt) Replaced() {
	a.settler.session.occupy()
	a.settler.ack()
}

// InProcess keeps parked events in memory, unacknowledged. They take prefetch
// as long as they wait, and a lost connection gives them back with no attempt
// counted. Their leases begin anew when they are delivered: what takes long
// meanwhile is not the worker's.
type InProcess struct{}

// Park delivers the event again after the attempt's delay.
func (InProcess) Park(a Attempt) {
	a.settler.session.waitingInProcess.Add(1)
	a.settler.lease.end()
	time.AfterFunc(a.Delay, a.Again)
}

// Bounds of what a copy carries along.
const (
	maxCarriedFailures = 5
	maxCarriedText     = 200 // bytes of one error's text
	// maxErrorsHeader bounds what is read: every byte may be escaped to six.
	maxErrorsHeader = maxFailures * (6*maxCarriedText + 64)
)

// maxShortString is the protocol's limit of a property, in bytes.
const maxShortString = 255

// copyTo returns the message that takes the attempt's place in a queue: the
// original's body and properties, except for an expiration and a user, which
// hold for the original only.
func (a Attempt) copyTo(queue string) Message {
	o := a.Message()
	return Message{
		RoutingKey: queue,
		ID:         a.settler.id(),
		Timestamp:  o.Timestamp,
		Priority:   o.Priority,
		Properties: o.Properties,
		Headers:    a.Headers(),
		Body:       o.Body,
	}
}

// id returns the message's id, or the event's where it has none: returned copies
// are told apart by it.
func (t *settler) id() string {
	if t.message.MessageID == "" && len(t.event.MessageID) <= maxShortString {
		return t.event.MessageID
	}
	return t.message.MessageID
}

// Headers returns those of a copy that stands for this attempt: the original's,
// and keyfold's of how far it got.
func (a Attempt) Headers() amqp.Table {
	t := a.settler
	headers := t.message.CarriedHeaders()
	delete(headers, HeaderReason)
	delete(headers, HeaderFirstExchange)
	headers[HeaderFirstSeen] = int64(t.firstSeen)
	headers[HeaderAttempts] = int64(t.attempts)
	headers[HeaderExchange] = t.message.Origin()
	headers[HeaderErrors] = encodeFailures(t.failures)
	return headers
}

// carriedFailure is one failure in [HeaderErrors].
type carriedFailure struct {
	At    engine.Millis `json:"at"`
	Error string        `json:"error"`
}

// encodeFailures keeps the first failure, which tells since when, and the last.
func encodeFailures(failures []Failure) string {
	carried := make([]carriedFailure, 0, maxCarriedFailures)
	for i, f := range failures {
		if i == 0 || i > len(failures)-maxCarriedFailures {
			carried = append(carried, carriedFailure{At: f.At, Error: Cut(f.Err.Error(), maxCarriedText)})
		}
	}
	// Strings and numbers cannot fail to encode.
	text, _ := json.Marshal(carried)
	return string(text)
}

// Failures returns what the copy's earlier attempts failed with, the oldest
// first; nothing where the header is not one of ours.
func (o *Original) Failures() []Failure {
	text, _ := o.Headers[HeaderErrors].(string)
	if text == "" || len(text) > maxErrorsHeader {
		return nil
	}
	var carried []carriedFailure
	if json.Unmarshal([]byte(text), &carried) != nil {
		return nil
	}
	carried = carried[:min(len(carried), maxFailures)]
	failures := make([]Failure, len(carried))
	for i, f := range carried {
		failures[i] = Failure{At: f.At, Err: errors.New(Cut(f.Error, maxCarriedText))}
	}
	return failures
}

// Cut returns text as UTF-8 of at most limit bytes.
func Cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}
