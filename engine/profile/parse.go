package profile

import (
	"bytes"
	"time"

	"keyfold/engine"
)

// field is a key of the message that means something to keyfold.
type field uint8

const (
	fieldUserID field = iota
	fieldEventType
	fieldPhrase
	fieldProductID
	fieldOccurredAt
	fieldMetadata
	fieldMessageID
	fieldVersion
	fieldCount // also: none of them
)

var fieldNames = [fieldCount]string{
	"user_id", "event_type", "search_phrase", "product_id",
	"occurred_at", "metadata", "message_id", "version",
}

// String returns the field's key.
func (f field) String() string { return fieldNames[f] }

// fields holds the value of each field as it stands in the body.
type fields [fieldCount]engine.Value

// ParseEvent reads one event from a message body, a JSON object:
//
//	user_id        integer literal 1..2147483647
//	event_type     one of the names of [EventTypes]
//	search_phrase  search: 1..[MaxPhraseRunes] characters, not all white space;
//	               otherwise "", null or absent
//	product_id     search: null or absent; otherwise as user_id
//	occurred_at    RFC 3339 with an offset (Z, +hh:mm or +hhmm), at least
//	               [engine.Earliest], at most [MaxFutureMillis] after now; kept in
//	               milliseconds
//	metadata       an object, null, [] or absent; not kept
//	message_id     1..[MaxMessageRunes] characters; null or absent: made with
//	               [MessageID]
//	version        "1.0" or absent
//
// Other keys are ignored. The reading is strict, because decoders disagree about
// lax texts (which of two equal keys counts, whether User_ID is user_id, what a
// lone surrogate stands for), and a message must not have two meanings.
//
// Every error is [engine.Permanent], under one of the reasons listed at
// [engine.ReasonBodyTooLarge]. The event does not alias body.
func ParseEvent(body []byte, now time.Time) (Event, error) {
	q := quick{body: body}
	if e, ok := q.event(engine.MillisOf(now), false); ok {
		return e, nil
	}
	return parseStrictly(body, engine.MillisOf(now))
}

// ParseEventOutlined does what [ParseEvent] does, but the event's message id may lie in the
// body's memory: the body must not change while the event is used, and is kept by it. It tells
// of what [Outline.AppendBody] makes the body again, in room. A body of an unusual shape has no
// outline.
func ParseEventOutlined(body []byte, now time.Time, room []byte) (Event, Outlined, error) {
	q := quick{body: body}
	if e, ok := q.event(engine.MillisOf(now), true); ok {
		return e, q.outlined(room), nil
	}
	e, err := parseStrictly(body, engine.MillisOf(now))
	return e, Outlined{}, err
}

// parseStrictly reads any event, and says what is wrong with what is none.
func parseStrictly(body []byte, now engine.Millis) (Event, error) {
	var f fields
	if _, err := f.read(body); err != nil {
		return Event{}, err
	}
	return f.event(now)
}

// read fills f from body, and returns the offset behind the object's end.
func (f *fields) read(body []byte) (end int, err error) {
	if len(body) > MaxBodyBytes {
		return 0, engine.Refuse(engine.ReasonBodyTooLarge, "body: found %d bytes, expected at most %d", len(body), MaxBodyBytes)
	}
	return engine.ReadObject(body, f.member)
}

// member keeps a value that belongs to a field.
func (f *fields) member(name []byte, value engine.Value) error {
	known := fieldOf(name)
	if known == fieldCount {
		return rightCase(name)
	}
	f[known] = value
	return nil
}

func fieldOf(name []byte) field {
	switch string(name) {
	case "user_id":
		return fieldUserID
	case "event_type":
		return fieldEventType
	case "search_phrase":
		return fieldPhrase
	case "product_id":
		return fieldProductID
	case "occurred_at":
		return fieldOccurredAt
	case "metadata":
		return fieldMetadata
	case "message_id":
		return fieldMessageID
	case "version":
		return fieldVersion
	default:
		return fieldCount
	}
}

// rightCase refuses a key that is not a field's but equals one in another case.
// A decoder that ignores case would take it for the field.
func rightCase(name []byte) error {
	for _, n := range fieldNames {
		if bytes.EqualFold(name, []byte(n)) {
			return engine.Refuse(engine.ReasonWrongKeyCase, "found the key %s, expected %q", engine.Quoted(name), n)
		}
	}
	return nil
}
