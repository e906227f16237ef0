package rabbit

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// Bounds of what a copy carries along.
const (
	maxCarriedFailures = 5
	maxCarriedText     = 200 // bytes of one error's text
	// maxErrorsHeader bounds what is read: every byte may be escaped to six.
	maxErrorsHeader = maxFailures * (6*maxCarriedText + 64)
	// maxForeignHeaders bounds the original's headers: all of them go into one
	// frame, of 128 KiB by default, and a larger one costs
	// the connection.
	maxForeignHeaders = 64 << 10
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

// CarriedHeaders returns the original's headers for a copy of it, without the
// marks of its way so far; none where they are too large.
func (o *Original) CarriedHeaders() amqp.Table {
	headers := amqp.Table{}
	maps.Copy(headers, o.Headers)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return IsBrokerHeader(name) })
	delete(headers, HeaderErrors)
	delete(headers, HeaderExchange)
	if tableSize(headers) > maxForeignHeaders {
		return amqp.Table{}
	}
	return headers
}

// Origin returns the exchange the event was first published to: a delay queue
// gives its messages back through another.
func (o *Original) Origin() string {
	if name, ok := o.Headers[HeaderExchange].(string); ok {
		return name
	}
	first, _ := o.Headers[HeaderFirstExchange].(string)
	return cmp.Or(o.Exchange, first)
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

// tableSize estimates the bytes a header's value takes up in a frame.
func tableSize(value any) (n int) {
	const head = 8 // type and length
	switch v := value.(type) {
	case amqp.Table:
		for name, field := range v {
			n += len(name) + tableSize(field)
		}
	case []any:
		for _, item := range v {
			n += tableSize(item)
		}
	case string:
		n = len(v)
	case []byte:
		n = len(v)
	}
	return n + head
}
