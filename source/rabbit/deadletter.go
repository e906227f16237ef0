package rabbit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// Headers of a dead letter beside the original's.
const (
	headerReason    = "x-first-death-reason"
	headerExchange  = "x-first-death-exchange"
	headerTimestamp = "x-original-timestamp"
)

// Headers of the broker's.
const (
	headerDeath      = "x-death"          // a record for each queue that gave the message up, the latest first
	headerDeliveries = "x-delivery-count" // by a quorum queue, before this one
)

// brokerHeaders hold for a delivered message and not for a copy of it: the
// broker's own marks of dead-lettering, which brokers from 4.0 on ignore in what
// a client publishes, while older ones would go on counting; how often it was
// delivered; and further addresses, which got theirs.
var brokerHeaders = []string{
	headerDeath, "x-first-death-queue", "x-last-death-reason", "x-last-death-queue", "x-last-death-exchange",
	headerDeliveries, "x-acquired-count", "CC", "BCC",
}

// DeadLetterQueue publishes letters to the dead-letter queue.
type DeadLetterQueue struct {
	Publisher *Publisher
	Names     Names
	Host      string // of the worker
}

// Store publishes the letters; each is safe once the broker has confirmed it.
func (q DeadLetterQueue) Store(ctx context.Context, letters []Letter) []error {
	messages := make([]Message, len(letters))
	for i := range letters {
		messages[i] = q.message(&letters[i])
	}
	return q.Publisher.Publish(ctx, messages)
}

func (q DeadLetterQueue) message(l *Letter) Message {
	return Message{
		RoutingKey: q.Names.DeadLetters,
		ID:         l.Message.MessageID,
		Timestamp:  l.Message.Timestamp,
		Priority:   l.Message.Priority,
		Headers:    l.headers(),
		Body:       l.body(q.Host),
	}
}

// headers keeps the original's and the first mark of where and when it was.
func (l *Letter) headers() amqp.Table {
	headers := l.Message.carriedHeaders()
	headers[headerReason] = l.Reason
	headers[HeaderFirstSeen] = int64(l.FirstSeen)
	headers[headerExchange] = l.Message.origin()
	if headers[headerTimestamp] == nil && !l.Message.Timestamp.IsZero() {
		headers[headerTimestamp] = iso8601(l.Message.Timestamp)
	}
	return headers
}

// failureInfo is the part of a dead letter that tells what happened.
type failureInfo struct {
	RetryCount     int      `json:"retry_count"`
	FirstFailureAt string   `json:"first_failure_at"`
	LastFailureAt  string   `json:"last_failure_at"`
	ErrorMessages  []string `json:"error_messages"`
	WorkerHost     string   `json:"worker_host"`
}

// maxErrorText bounds an error's text in a dead letter, in bytes.
const maxErrorText = 500

// body puts the original's bytes, unchanged, beside the failure. What is not
// JSON is a string of base64, marked by "original_encoding"; what was cut has the
// length and the hash of the whole beside it.
func (l *Letter) body(host string) []byte {
	info := failureInfo{RetryCount: l.Retries, WorkerHost: host, ErrorMessages: []string{}}
	for _, f := range l.Failures {
		info.ErrorMessages = append(info.ErrorMessages, cut(f.Err.Error(), maxErrorText))
	}
	if n := len(l.Failures); n > 0 {
		info.FirstFailureAt = iso8601(l.Failures[0].At.Time())
		info.LastFailureAt = iso8601(l.Failures[n-1].At.Time())
	}
	// Strings and numbers cannot fail to encode.
	text, _ := json.Marshal(info)

	original, mark := l.Message.Body, ""
	if l.Message.whole != nil || !utf8.Valid(original) || !json.Valid(original) {
		original = []byte(`"` + base64.StdEncoding.EncodeToString(original) + `"`)
		mark = `,"original_encoding":"base64"`
	}
	if whole := l.Message.whole; whole != nil {
		mark += fmt.Sprintf(`,"original_truncated":true,"original_length":%d,"original_sha256":"%x"`, whole.Length, whole.SHA256)
	}
	body := make([]byte, 0, len(original)+len(mark)+len(text)+80)
	body = append(body, `{"original_message":`...)
	body = append(body, original...)
	body = append(body, mark...)
	body = append(body, `,"failure_info":`...)
	body = append(body, text...)
	return append(body, '}')
}

// cut returns text as UTF-8 of at most limit bytes.
func cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}

// iso8601 formats t as PHP's DATE_ATOM does, which replay tools expect.
func iso8601(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05-07:00") }

var _ DeadLetters = DeadLetterQueue{}

var _ engine.Settler = (*settler)(nil)
