package engine

import (
	"bytes"
	"time"
	"unicode/utf8"
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
type fields [fieldCount]token

// ParseEvent reads one event from a message body, a JSON object:
//
//	user_id        integer literal 1..2147483647
//	event_type     one of the names of [EventTypes]
//	search_phrase  search: 1..[MaxPhraseRunes] characters, not all white space;
//	               otherwise "", null or absent
//	product_id     search: null or absent; otherwise as user_id
//	occurred_at    RFC 3339 with an offset (Z, +hh:mm or +hhmm), at least
//	               [Earliest], at most [MaxFutureMillis] after now; kept in
//	               milliseconds
//	metadata       an object, null or absent; not kept
//	message_id     1..[MaxMessageRunes] characters; null or absent: made with
//	               [MessageID]
//	version        "1.0" or absent
//
// Other keys are ignored. The reading is strict, since whatever decoders may
// disagree about (which of two equal keys counts, whether User_ID is user_id,
// what a lone surrogate stands for) would give one message two meanings.
//
// Every error is [Permanent], under one of the reasons listed at
// [ReasonBodyTooLarge]. The event does not alias body.
func ParseEvent(body []byte, now time.Time) (Event, error) {
	if len(body) > MaxBodyBytes {
		return Event{}, refuse(ReasonBodyTooLarge, "body: found %d bytes, expected at most %d", len(body), MaxBodyBytes)
	}
	if !utf8.Valid(body) {
		return Event{}, refuse(ReasonInvalidUTF8, "body: found a byte that is not UTF-8 at byte %d, expected UTF-8 only", invalidAt(body))
	}
	s := scanner{body: body}
	var f fields
	if err := f.read(&s); err != nil {
		return Event{}, err
	}
	return f.event(MillisOf(now))
}

// invalidAt returns the offset of the first byte that is not UTF-8.
func invalidAt(body []byte) int {
	i := 0
	for i < len(body) {
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return i
}

// read fills f from the one object the scanner's body holds.
func (f *fields) read(s *scanner) error {
	s.space()
	if s.peek() != '{' {
		return s.syntax("one JSON object")
	}
	if err := s.open(); err != nil {
		return err
	}
	for {
		more, err := s.more()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := f.readMember(s); err != nil {
			return err
		}
	}
	s.space()
	if s.pos < len(s.body) {
		return refuse(ReasonTrailingData, "body: found something more at byte %d of %d, expected one JSON object only",
			s.pos, len(s.body))
	}
	return nil
}

// readMember reads one key of the top level and its value.
func (f *fields) readMember(s *scanner) error {
	at := s.pos
	name, err := s.name()
	if err != nil {
		return err
	}
	known := fieldOf(name)
	switch {
	case known == fieldCount:
		if err := rightCase(name); err != nil {
			return err
		}
		if err := s.unique(name, at); err != nil {
			return err
		}
	case f[known].kind != noValue:
		return duplicateKey(name, at)
	}
	value, err := s.value()
	if err == nil && known != fieldCount {
		f[known] = value
	}
	return err
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
			return refuse(ReasonWrongKeyCase, "found the key %s, expected %q", quoted(name), n)
		}
	}
	return nil
}
