package deadletter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// headerTimestamp is the original's time, for tools that know no AMQP timestamp.
const headerTimestamp = "x-original-timestamp"

// Queue publishes letters to the dead-letter queue.
type Queue struct {
	Publisher *rabbit.Publisher
	Names     rabbit.Names
	Host      string // of the worker
	// Describe reads what letters are known by, also of events that were refused. nil:
	// the fields of events that are folded.
	Describe consume.Describe
}

// Store publishes the letters; each is safe once the broker has confirmed it.
func (q Queue) Store(ctx context.Context, letters []consume.Letter) []error {
	messages := make([]rabbit.Message, len(letters))
	for i := range letters {
		messages[i] = q.message(&letters[i])
	}
	return q.Publisher.Publish(ctx, messages)
}

// message returns a letter's message, and sets what the letter is found by.
func (q Queue) message(l *consume.Letter) rabbit.Message {
	m := rabbit.Message{
		RoutingKey: q.Names.DeadLetters,
		ID:         l.Message.ID,
		Timestamp:  l.Message.Timestamp,
		Priority:   l.Message.Priority,
		Headers:    headersOf(l),
		Body:       bodyOf(l, q.Host),
	}
	original := l.Message.Body
	if l.Message.Whole != nil {
		original = nil // as in [Letter.Original]
	}
	l.Subject = subjectOf(q.Describe, m, original, m.Body)
	return m
}

// headersOf keeps the original's and the first mark of where and when it was.
func headersOf(l *consume.Letter) amqp.Table {
	headers := l.Message.CarriedHeaders()
	headers[rabbit.HeaderReason] = l.Reason
	headers[rabbit.HeaderFirstSeen] = int64(l.FirstSeen)
	headers[rabbit.HeaderFirstExchange] = l.Message.Origin()
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

// bodyOf puts the original's bytes, unchanged, beside the failure. What is not
// JSON is a string of base64, marked by "original_encoding"; what was cut has the
// length and the hash of the whole beside it.
func bodyOf(l *consume.Letter, host string) []byte {
	info := failureInfo{RetryCount: l.Retries, WorkerHost: host, ErrorMessages: []string{}}
	for _, f := range l.Failures {
		info.ErrorMessages = append(info.ErrorMessages, rabbit.Cut(f.Err.Error(), maxErrorText))
	}
	if n := len(l.Failures); n > 0 {
		info.FirstFailureAt = iso8601(l.Failures[0].At.Time())
		info.LastFailureAt = iso8601(l.Failures[n-1].At.Time())
	}
	// Strings and numbers cannot fail to encode.
	text, _ := json.Marshal(info)

	original, mark := l.Message.Body, ""
	if l.Message.Whole != nil || !utf8.Valid(original) || !json.Valid(original) {
		original = []byte(`"` + base64.StdEncoding.EncodeToString(original) + `"`)
		mark = `,"original_encoding":"base64"`
	}
	if whole := l.Message.Whole; whole != nil {
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

// iso8601 formats t as PHP's DATE_ATOM does, which replay tools expect.
func iso8601(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05-07:00") }

var _ consume.DeadLetters = Queue{}
