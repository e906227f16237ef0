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

// Bounds of what a copy carries along.
const (
	maxCarriedFailures = 5
	maxCarriedText     = 200 // bytes of one error's text
	// maxErrorsHeader bounds what is read: every byte may be escaped to six.
	maxErrorsHeader = maxFailures * (6*maxCarriedText + 64)
)

// copyTo returns the message that takes this one's place elsewhere: the
// original's body and properties, except for an expiration and a user, which
// hold for the original only. Where the original has no id the copy has the
// event's: returned copies are told apart by it.
func (t *settler) copyTo(exchange, key string) Message {
	m := t.message.Message
	m.Exchange, m.RoutingKey, m.Headers = exchange, key, t.copyHeaders()
	if m.ID == "" {
		if id := t.session.config.Describe(&t.message).ID; len(id) <= maxShortString {
			m.ID = id
		}
	}
	return m
}

// copyHeaders returns the original's headers, and keyfold's of how far the event got.
func (t *settler) copyHeaders() amqp.Table {
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
