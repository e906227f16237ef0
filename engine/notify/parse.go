package notify

import (
	"bytes"
	"fmt"
	"math"

	"keyfold/engine"
)

// field is a key of an event's object.
type field uint8

const (
	fieldEventID field = iota
	fieldUserID
	fieldEventType
	fieldTitle
	fieldMessage
	fieldSource
	fieldHint
	fieldChannel
	fieldTimestamp
	fieldExpiresAt
	fieldDedupeKey
	fieldMetadata
	fieldReplaces
	fieldFollows // of stored events
	fieldCount   // of events

	// Of reports, beside event_id and channel.
	fieldDecisionID = iota - 1
	fieldStatus
	fieldAt
	fieldError
	fieldAll
)

var fieldNames = [fieldCount]string{
	"event_id", "user_id", "event_type", "title", "message", "source",
	"priority_hint", "channel", "timestamp", "expires_at", "dedupe_key", "metadata", "replaces", "keyfold_follows",
}

var reportFieldNames = [fieldAll - fieldCount]string{"decision_id", "status", "at", "error"}

// String returns the field's key.
func (f field) String() string {
	if f >= fieldCount {
		return reportFieldNames[f-fieldCount]
	}
	return fieldNames[f]
}

// eventFields and reportFields are the fields of a body.
var (
	eventFields = []field{
		fieldEventID, fieldUserID, fieldEventType, fieldTitle, fieldMessage, fieldSource,
		fieldHint, fieldChannel, fieldTimestamp, fieldExpiresAt, fieldDedupeKey, fieldMetadata, fieldReplaces, fieldFollows,
	}
	cancellationFields = []field{fieldEventID, fieldUserID, fieldDedupeKey}
	reportFields       = []field{fieldDecisionID, fieldEventID, fieldStatus, fieldChannel, fieldAt, fieldError}
)

// Parse reads one event, a JSON object of at most [MaxBodyBytes]:
//
//	event_id       a UUID in its form of 36 characters, not the zero one; null or
//	               absent: made from the other fields ([Notification.Body] has it)
//	user_id        1..[MaxUserRunes] characters
//	event_type     one of [EventTypes]
//	title          1..[MaxTitleRunes] characters, not all white space
//	message        at most [MaxMessageRunes] characters, null or absent
//	source         1..[MaxSourceRunes] characters, not all white space
//	priority_hint  CRITICAL, HIGH, MEDIUM, LOW, null or absent
//	channel        an array of at least one of [Channels], each at most once
//	timestamp      RFC 3339 with an offset (Z, +hh:mm or +hhmm), year 1000 or
//	               later, at most [MaxFuture] after now; kept in milliseconds
//	expires_at     as timestamp, and after it; null or absent: it does not expire
//	dedupe_key     at most [MaxDedupeRunes] characters, "", null or absent
//	metadata       an object of at most [MaxMetadataBytes] as it stands in the
//	               body, [MaxMetadataDepth] levels at most, null or absent
//	replaces       the event_id of a notification whose place it takes where that one
//	               waits, or "dedupe_key": of all of the user that wait with the same
//	               dedupe_key; null or absent
//
// Other keys are ignored, but keyfold_follows, which is keyfold's own, is refused. As the body is stored in columns of SQL, \u0000 is
// refused in every text of it, and so are numbers of more than [MaxNumberBytes]
// characters or with an exponent beyond ±[MaxExponent].
//
// The error is [engine.Permanent] and holds all faults ([FaultsOf]), under the
// reason and the field of the first one. A text that is not one strict JSON object
// ([engine.ReadObject]) is one fault. The notification does not alias body. Its
// Print is not set.
func Parse(body []byte, now engine.Millis) (*Notification, error) {
	if err := tooLarge(body); err != nil {
		return nil, err
	}
	return parse(body, now, true)
}

func tooLarge(body []byte) error {
	if len(body) <= MaxBodyBytes {
		return nil
	}
	err := engine.PermanentError(engine.ReasonBodyTooLarge,
		fmt.Errorf("body: found %d bytes, expected at most %d", len(body), MaxBodyBytes))
	return Faults{{Reason: engine.ReasonBodyTooLarge, Text: err.Error(), cause: err}}.err()
}

// ParseStored reads a [Notification.Body] that a ledger has kept. It was accepted by
// the clock of its time, and the id that was made for it may have brought it over the
// limit of bodies: neither is judged again. A follow-up has what it follows.
func ParseStored(body []byte) (*Notification, error) {
	return parse(body, math.MaxInt64/2, false)
}

func parse(body []byte, now engine.Millis, posted bool) (*Notification, error) {
	p := parser{now: now, known: eventFields}
	end, err := p.read(body)
	if err != nil {
		return nil, err
	}
	n := p.notification()
	if posted && kindOf(p.fields[fieldFollows].Text) != Absent {
		p.fault(fieldFollows, FaultReserved, "found it, expected none: only keyfold's own follow-ups have it")
	}
	if err := p.faults.err(); err != nil {
		return nil, err
	}
	made := n.ID == [16]byte{}
	if made {
		n.ID = p.makeID(n)
	}
	n.Body = p.complete(body, end-1, n.ID, made)
	return n, nil
}

// parser gathers the fields of a body, and what is wrong with it.
type parser struct {
	now    engine.Millis
	known  []field // that the body may have
	fields [fieldAll]engine.Value
	faults Faults
}

// read gathers the fields. It returns the offset behind the object's closing brace.
func (p *parser) read(body []byte) (end int, err error) {
	end, err = engine.ReadObject(body, p.member)
	if err != nil {
		err = Faults{{Reason: engine.ReasonOf(err), Field: engine.FieldOf(err), Text: err.Error(), cause: err}}.err()
	}
	return end, err
}

// member keeps a value that belongs to a field, and checks it for what no text
// column takes.
func (p *parser) member(name []byte, value engine.Value) error {
	for _, f := range p.known {
		if string(name) == f.String() {
			p.fields[f] = value
			p.storable(f.String(), f.String(), value)
			return nil
		}
	}
	for _, f := range p.known {
		if known := f.String(); bytes.EqualFold(name, []byte(known)) {
			p.once(known, engine.ReasonWrongKeyCase, "found the key %s, expected %q", engine.Quoted(name), known)
			return nil
		}
	}
	if bytes.IndexByte(name, 0) >= 0 {
		p.once("", engine.ReasonNulCharacter, `found \u0000 in the key %s`, engine.Quoted(name))
	}
	p.storable("", engine.Quoted(name), value)
	return nil
}

// fault adds a fault of a field.
func (p *parser) fault(f field, reason, format string, args ...any) {
	p.add(f.String(), reason, f.String()+": "+format, args...)
}

// once adds a fault unless there is one of the field and reason.
func (p *parser) once(name, reason, format string, args ...any) {
	for i := range p.faults {
		if p.faults[i].Field == name && p.faults[i].Reason == reason {
			return
		}
	}
	p.add(name, reason, format, args...)
}

func (p *parser) add(name, reason, format string, args ...any) {
	p.faults = append(p.faults, Fault{Field: name, Reason: reason, Text: fmt.Sprintf(format, args...)})
}
