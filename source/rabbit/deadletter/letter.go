package deadletter

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// DigestPrefix starts the ids of letters that have none of their own.
const DigestPrefix = "letter-"

// Letter is one message of the dead-letter queue, read as far as it can be:
// whatever somebody else has put there, or has broken, is still shown.
type Letter struct {
	// Subject has the event's id, from the message or its body; where neither has
	// one, a digest of the whole letter. The kind is as it stands in the event.
	consume.Subject
	Reason  string // "" where the letter names none
	Retries int
	Errors  []string // the oldest first
	// FirstFailure and LastFailure are zero where the letter does not tell.
	FirstFailure, LastFailure time.Time
	Host                      string        // of the worker that gave up
	FirstSeen                 engine.Millis // 0 where the letter does not tell
	// Original is the event's body, byte for byte; nil in what is no letter of
	// keyfold's form, or has the start of a body only: it cannot be replayed.
	Original []byte
	// Fault says what is wrong with the letter itself; nil for a whole one.
	Fault error
	// GivenUp: the broker moved the event here as it was, not a worker.
	GivenUp bool

	Headers amqp.Table
	Body    []byte // of the letter

	message rabbit.Original
	tag     uint64 // of its delivery to the scan
}

// envelope is a letter's body, each part still to be read.
type envelope struct {
	Original json.RawMessage `json:"original_message"`
	Encoding json.RawMessage `json:"original_encoding"`
	Info     json.RawMessage `json:"failure_info"`

	Truncated json.RawMessage `json:"original_truncated"`
	Length    json.RawMessage `json:"original_length"`
	SHA256    json.RawMessage `json:"original_sha256"`
}

var errForeign = errors.New("not a letter of keyfold's: it has no original_message")

// readLetter never fails: what it cannot read it leaves empty, and says so
// in Fault.
func readLetter(d *amqp.Delivery, describe consume.Describe) *Letter {
	l := &Letter{Headers: d.Headers, Body: d.Body, message: rabbit.OriginalOf(d), tag: d.DeliveryTag}
	l.Reason, _ = d.Headers[rabbit.HeaderReason].(string)
	l.FirstSeen = engine.Millis(max(0, l.message.Integer(rabbit.HeaderFirstSeen)))
	if death, ok := lastDeath(d.Headers); ok {
		l.readGivenUp(death)
	} else {
		l.readBody()
	}
	l.Subject = subjectOf(describe, l.message.Message, l.Original, l.Body)
	return l
}

// lastDeath returns the broker's record of how the message came into the queue
// it is in. Letters of a worker have none: see [rabbit.Original.CarriedHeaders].
func lastDeath(headers amqp.Table) (death amqp.Table, ok bool) {
	deaths, _ := headers[rabbit.HeaderDeath].([]any)
	if len(deaths) > 0 {
		death, ok = deaths[0].(amqp.Table)
	}
	return death, ok
}

// readGivenUp reads an event that the broker moved here.
func (l *Letter) readGivenUp(death amqp.Table) {
	l.GivenUp, l.Original = true, l.Body
	l.Reason, _ = death["reason"].(string)
	l.LastFailure, _ = death["time"].(time.Time)
	l.FirstFailure = l.LastFailure
	l.Retries = int(max(0, min(l.message.Integer(rabbit.HeaderAttempts), consume.MaxPrefetch)))
	for _, f := range l.message.Failures() {
		l.Errors = append(l.Errors, f.Err.Error())
	}
}

// OriginalIn returns the event's body in the body of a letter; that itself where it holds
// none in whole, as that of an event which the broker moved.
func OriginalIn(body []byte) []byte {
	l := Letter{Body: body}
	if l.readBody(); l.Original == nil {
		return body
	}
	return l.Original
}

func (l *Letter) readBody() {
	var e envelope
	if err := json.Unmarshal(l.Body, &e); err != nil {
		l.Fault = fmt.Errorf("not a letter of keyfold's: %w", err)
		return
	}
	if e.Original == nil {
		l.Fault = errForeign
		return
	}
	if e.Truncated != nil {
		l.Fault = fmt.Errorf("the letter has the start of the original only: that had %.20s bytes (SHA-256 %.70s)", e.Length, e.SHA256)
	} else if l.Original, l.Fault = unwrap(l.Body, e); l.Fault != nil {
		return
	}
	var info failureInfo
	// Fields of another type are left out, the others are read.
	if err := json.Unmarshal(e.Info, &info); err != nil {
		l.Fault = errors.Join(l.Fault, fmt.Errorf("failure_info is not readable: %w", err))
	}
	l.Retries, l.Errors, l.Host = info.RetryCount, info.ErrorMessages, info.WorkerHost
	l.FirstFailure, _ = time.Parse(time.RFC3339, info.FirstFailureAt)
	l.LastFailure, _ = time.Parse(time.RFC3339, info.LastFailureAt)
}

// unwrap returns the original's bytes.
func unwrap(body []byte, e envelope) ([]byte, error) {
	if e.Encoding == nil || string(e.Encoding) == "null" {
		return withSpaces(body, e.Original), nil
	}
	if string(e.Encoding) != `"base64"` {
		return nil, fmt.Errorf("original_encoding is %.40s: it must be \"base64\" or absent", e.Encoding)
	}
	var text string
	if err := json.Unmarshal(e.Original, &text); err != nil {
		return nil, fmt.Errorf("original_message is no base64: %w", err)
	}
	original, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("original_message is no base64: %w", err)
	}
	return original, nil
}

const (
	letterStart = `{"original_message":`
	whiteSpace  = " \t\r\n"
)

// withSpaces returns value with the white space around it that the original had
// and the decoder drops: a replayed body is the original's, byte for byte.
func withSpaces(body, value []byte) []byte {
	original, ok := bytes.CutPrefix(body, []byte(letterStart))
	if !ok {
		return value
	}
	trimmed := bytes.TrimLeft(original, whiteSpace)
	behind, ok := bytes.CutPrefix(trimmed, value)
	if !ok {
		return value
	}
	return original[:len(original)-len(bytes.TrimLeft(behind, whiteSpace))]
}

// subjectOf returns what a letter is known by, also that of an event that is refused:
// the id of the message or of its body or, where neither has one, a digest of the
// letter's body; the rest as far as it can be read. original is nil where the letter
// does not have all of it.
func subjectOf(describe consume.Describe, message rabbit.Message, original, letter []byte) consume.Subject {
	if describe == nil {
		describe = describeEvent
	}
	message.Body = original
	s := describe(&rabbit.Original{Message: message})
	if s.ID = cmp.Or(message.ID, s.ID); s.ID == "" {
		sum := sha256.Sum256(letter)
		s.ID = DigestPrefix + hex.EncodeToString(sum[:16])
	}
	return s
}

// describeEvent describes events that are folded, by the fields of the body alone:
// unlike [consume.DescribeEvent] it takes events that a worker refuses.
func describeEvent(o *rabbit.Original) consume.Subject {
	var event struct {
		UserID    json.RawMessage `json:"user_id"`
		EventType json.RawMessage `json:"event_type"`
		MessageID json.RawMessage `json:"message_id"`
	}
	s := consume.Subject{NumericUser: true}
	// Each on its own: one of the wrong type does not hide the others.
	if json.Unmarshal(o.Body, &event) == nil {
		var user int32
		if _ = json.Unmarshal(event.UserID, &user); user != 0 {
			s.User = strconv.Itoa(int(user))
		}
		_ = json.Unmarshal(event.EventType, &s.Kind)
		_ = json.Unmarshal(event.MessageID, &s.ID)
	}
	return s
}
