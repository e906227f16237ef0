package rabbit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"maps"
	"math"
	"reflect"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// appID is what keyfold's messages name as their application.
const appID = "keyfold"

// Properties are those a producer may set and keyfold carries on.
type Properties struct {
	ContentType     string // default application/json
	ContentEncoding string // default utf-8
	AppID           string // default keyfold
	Type            string
	CorrelationID   string
	ReplyTo         string
}

// Message is one message to publish. It is persistent.
type Message struct {
	Exchange   string // "" is the default exchange: the key names the queue
	RoutingKey string
	ID         string // of the event
	Timestamp  time.Time
	Priority   uint8
	// Expiration is after how long a queue drops the message, rounded up to
	// milliseconds; 0: never. More than [MaxExpiration] counts as never. It is of one
	// publication: [OriginalOf] does not read it, so that no copy of an event that
	// waits for a retry, and no dead letter, expires.
	Expiration time.Duration
	Until      time.Time // it is not sent later; zero: at any time
	Properties Properties
	Headers    amqp.Table // of AMQP field types; may be nil
	Body       []byte
}

// Late reports whether the message must not be sent any more. A machine that was
// suspended may have stopped the monotonic clock, and one whose clock was set the other:
// the later time counts.
func (m *Message) Late(now time.Time) bool {
	return !m.Until.IsZero() && (now.After(m.Until) || now.Round(0).After(m.Until.Round(0)))
}

// publishing returns what is sent over a connection with frames of a size.
func (m *Message) publishing(frame int) amqp.Publishing {
	p := &m.Properties
	return amqp.Publishing{
		Headers:         fitting(m.Headers, frame-maxProperties),
		ContentType:     cmp.Or(p.ContentType, "application/json"),
		ContentEncoding: cmp.Or(p.ContentEncoding, "utf-8"),
		Type:            p.Type,
		CorrelationId:   p.CorrelationID,
		ReplyTo:         p.ReplyTo,
		DeliveryMode:    amqp.Persistent,
		Priority:        m.Priority,
		Timestamp:       m.Timestamp,
		MessageId:       m.ID,
		Expiration:      m.expiration(),
		AppId:           cmp.Or(p.AppID, appID),
		Body:            m.Body,
	}
}

// MaxExpiration is the longest expiration that brokers take: 2^32-1 ms, about 49 days.
// They close the channel for a longer one.
const MaxExpiration = math.MaxUint32 * time.Millisecond

func (m *Message) expiration() string {
	if m.Expiration <= 0 || m.Expiration > MaxExpiration {
		return ""
	}
	return strconv.FormatInt(int64((m.Expiration+time.Millisecond-1)/time.Millisecond), 10)
}

// Original is a message as the broker delivered it: what a retry or a dead
// letter has to carry on.
type Original struct {
	Message
	Whole *WholeBody // nil: Body is whole
}

// WholeBody describes a body of which [Original.Body] has the start only.
type WholeBody struct {
	Length int
	SHA256 [sha256.Size]byte
}

// maxLetterBody is how much of a body is kept for a dead letter: far more than an
// event may have, and with all that a letter adds far less than brokers take.
const maxLetterBody = 4 * profile.MaxBodyBytes

// CutBody keeps the start of a body that is too long for a letter, and lets go of
// the rest.
func (o *Original) CutBody() {
	if len(o.Body) <= maxLetterBody {
		return
	}
	o.Whole = &WholeBody{Length: len(o.Body), SHA256: sha256.Sum256(o.Body)}
	o.Body = bytes.Clone(o.Body[:maxLetterBody])
}

// OriginalOf returns what a delivery brought.
func OriginalOf(d *amqp.Delivery) Original {
	return Original{Message: Message{
		Exchange: d.Exchange, RoutingKey: d.RoutingKey, ID: d.MessageId, Timestamp: d.Timestamp, Priority: d.Priority,
		Properties: Properties{
			ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, AppID: d.AppId, Type: d.Type,
			CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo,
		},
		Headers: d.Headers, Body: d.Body,
	}}
}

// Integer returns a header's number, 0 where there is none. Clients differ in
// the integer type they send.
func (o *Original) Integer(name string) int64 {
	switch v := reflect.ValueOf(o.Headers[name]); {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(v.Uint())
	default:
		return 0
	}
}

// Trace returns the trace in the message's headers; nil without one.
func (o *Original) Trace() *engine.Trace {
	if len(o.Headers) == 0 {
		return nil
	}
	return engine.TraceOf(func(name string) string {
		text, _ := o.Headers[name].(string)
		return text
	})
}

// maxForeignHeaders bounds the original's headers on a copy: all of them go into
// one frame, of 128 KiB by default, and a larger one costs the connection.
const maxForeignHeaders = 64 << 10

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

// maxProperties is the most that a frame with a message's headers has beside them: ten
// properties of up to 256 bytes, and some numbers.
const maxProperties = 10*256 + 64

// fitting returns headers of at most room bytes: where all are more, those of keyfold's
// own that fit, the one that matters most first. A broker ends the connection for headers
// that are larger than a frame, each time they are sent: they would be in the way of all
// other messages. The copy of a message whose headers fill a frame has more than fit, and
// so has a message of a broker's whose frame_max was lowered since.
func fitting(headers amqp.Table, room int) amqp.Table {
	if tableSize(headers) <= room {
		return headers
	}
	own := amqp.Table{}
	for _, name := range [...]string{HeaderFirstSeen, HeaderAttempts, HeaderReason, HeaderExchange, HeaderFirstExchange, HeaderErrors} {
		value, has := headers[name]
		if !has {
			continue
		}
		if own[name] = value; tableSize(own) > room {
			delete(own, name)
		}
	}
	return own
}

// Origin returns the exchange the event was first published to: a delay queue
// gives its messages back through another. What is too long for an exchange's name is
// none: a copy says it beside other headers, which it is to fit into a frame with.
func (o *Original) Origin() string {
	if name, ok := o.Headers[HeaderExchange].(string); ok && len(name) <= MaxShortString {
		return name
	}
	first, _ := o.Headers[HeaderFirstExchange].(string)
	if len(first) > MaxShortString {
		first = ""
	}
	return cmp.Or(o.Exchange, first)
}

// tableSize returns the bytes a header's value takes up in a frame, or somewhat more.
func tableSize(value any) (n int) {
	const head = 10 // length of the name, type, length or number
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
