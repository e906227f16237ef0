package profile

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"keyfold/engine"
)

// event checks the fields and returns the event they make.
func (f *fields) event(now engine.Millis) (e Event, err error) {
	if err = f.checkVersion(); err != nil {
		return Event{}, err
	}
	if err = f.checkMetadata(); err != nil {
		return Event{}, err
	}
	if e.UserID, err = f.id(fieldUserID); err != nil {
		return Event{}, err
	}
	if e.Type, err = f.eventType(); err != nil {
		return Event{}, err
	}
	if err = f.readTarget(&e); err != nil {
		return Event{}, err
	}
	if e.OccurredAt, err = f.occurredAt(now); err != nil {
		return Event{}, err
	}
	if e.MessageID, err = f.messageID(&e); err != nil {
		return Event{}, err
	}
	e.Digest = DigestOf(e.MessageID)
	return e, nil
}

// set reports whether a field is there and not null.
func (f *fields) set(name field) bool { return f[name].Kind() > engine.NullValue }

// text returns the text of a field that must be a string.
func (f *fields) text(name field) ([]byte, error) {
	if err := f.expect(name, engine.StringValue); err != nil {
		return nil, err
	}
	return f[name].Unquoted(), nil
}

// expect refuses a field that is missing or of another kind.
func (f *fields) expect(name field, kind engine.ValueKind) error {
	switch f[name].Kind() {
	case kind:
		return nil
	case engine.NoValue:
		return refuseField(engine.ReasonMissingField, name, "found nothing, expected %s", kind)
	default:
		return refuseField(engine.ReasonWrongType, name, "found %s, expected %s", f[name].Kind(), kind)
	}
}

func (f *fields) checkVersion() error {
	switch v := f[fieldVersion]; {
	case v.Kind() == engine.NoValue:
		return nil
	case v.Kind() != engine.StringValue:
		return refuseField(ReasonUnsupportedVersion, fieldVersion, `found %s, expected "1.0" or no version`, v.Kind())
	case string(v.Unquoted()) != "1.0":
		return refuseField(ReasonUnsupportedVersion, fieldVersion, `found %s, expected "1.0" or no version`, engine.Quoted(v.Unquoted()))
	default:
		return nil
	}
}

func (f *fields) checkMetadata() error {
	v := f[fieldMetadata]
	if kind := v.Kind(); kind > engine.NullValue && kind != engine.ObjectValue && !isEmptyArray(v) {
		return refuseField(ReasonMetadataNotObject, fieldMetadata, "found %s, expected an object, null or nothing", kind)
	}
	return nil
}

// isEmptyArray reports whether the value is []: PHP's json_encode makes that of metadata
// without members.
func isEmptyArray(v engine.Value) bool {
	return len(v.Text) > 1 && v.Text[0] == '[' && len(bytes.TrimSpace(v.Text[1:len(v.Text)-1])) == 0
}

// id reads a positive int32. Only a plain integer literal is one: 12.0 and 1e3
// are integers to some decoders and not to others.
func (f *fields) id(name field) (int32, error) {
	if err := f.expect(name, engine.NumberValue); err != nil {
		return 0, err
	}
	literal := f[name].Text
	if bytes.ContainsAny(literal, ".eE") {
		return 0, refuseField(engine.ReasonWrongType, name, "found %s, expected a number without fraction and exponent", engine.Quoted(literal))
	}
	n, err := strconv.ParseInt(string(literal), 10, 32)
	if err != nil || n < 1 {
		return 0, refuseField(engine.ReasonIDOutOfRange, name, "found %s, expected 1..%d", engine.Quoted(literal), math.MaxInt32)
	}
	return int32(n), nil
}

func (f *fields) eventType() (EventType, error) {
	name, err := f.text(fieldEventType)
	if err != nil {
		return 0, err
	}
	t := ParseEventType(string(name))
	if t == 0 {
		return 0, refuseField(engine.ReasonUnknownEventType, fieldEventType, "found %s, expected one of %v; %s names those of the shop", engine.Quoted(name), EventTypes(), ownSetting)
	}
	return t, nil
}

// readTarget reads what the event is about, a product or a phrase, into e.
func (f *fields) readTarget(e *Event) (err error) {
	if f.set(fieldProductID) {
		if e.ProductID, err = f.id(fieldProductID); err != nil {
			return err
		}
	}
	var phrase []byte
	if f.set(fieldPhrase) {
		if phrase, err = f.text(fieldPhrase); err != nil {
			return err
		}
	}
	if !e.Type.HasPhrase() {
		return checkProductEvent(e, phrase)
	}
	e.Phrase = string(phrase)
	return checkSearch(e, phrase)
}

func checkSearch(e *Event, phrase []byte) error {
	if len(bytes.TrimSpace(phrase)) == 0 {
		return refuseField(ReasonSearchWithoutPhrase, fieldPhrase, "found none, or only white space; expected what was searched for")
	}
	if e.ProductID != 0 {
		return refuseField(ReasonPhraseAndProduct, fieldProductID, "found %d, expected none with a %s", e.ProductID, e.Type)
	}
	if tooLong(phrase, MaxPhraseRunes) {
		return refuseField(ReasonPhraseTooLong, fieldPhrase, "found %d characters, expected at most %d",
			utf8.RuneCount(phrase), MaxPhraseRunes)
	}
	return checkNul(fieldPhrase, phrase)
}

func checkProductEvent(e *Event, phrase []byte) error {
	if e.ProductID == 0 {
		return refuseField(ReasonProductEventNoTarget, fieldProductID, "found nothing, expected the product of a %s", e.Type)
	}
	if len(phrase) > 0 {
		return refuseField(ReasonPhraseAndProduct, fieldPhrase, "found %d characters, expected none with a %s",
			utf8.RuneCount(phrase), e.Type)
	}
	return nil
}

// tooLong reports whether text has more than limit characters. A text of at most
// limit bytes is not counted, because a character has at least one byte.
func tooLong(text []byte, limit int) bool {
	return len(text) > limit && utf8.RuneCount(text) > limit
}

func checkNul(name field, text []byte) error {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return refuseField(engine.ReasonNulCharacter, name, `found \u0000 as character %d, expected text that SQL columns can keep`, utf8.RuneCount(text[:i])+1)
	}
	return nil
}

func (f *fields) occurredAt(now engine.Millis) (engine.Millis, error) {
	text, err := f.text(fieldOccurredAt)
	if err != nil {
		return 0, err
	}
	at, err := parseTimestamp(text)
	if err != nil {
		return 0, err
	}
	if at < engine.Earliest {
		return 0, refuseField(engine.ReasonBadTimestamp, fieldOccurredAt, "found %s, expected the year 1000 or later: SQL columns keep no earlier time", engine.Quoted(text))
	}
	if at-now > MaxFutureMillis {
		return 0, refuseField(engine.ReasonFutureEvent, fieldOccurredAt, "found %s, %s after now, expected at most %s",
			engine.Quoted(text), span(at-now), span(MaxFutureMillis))
	}
	return at, nil
}

// parseTimestamp reads the timestamp of an event.
func parseTimestamp(text []byte) (engine.Millis, error) {
	at, err := engine.ParseTimestamp(text)
	if err != nil {
		return 0, refuseField(engine.ReasonOf(err), fieldOccurredAt, "%w", err)
	}
	return at, nil
}

// span writes a length of time for people: "9.2 years", "12 days", "5 minutes", "5m0.001s".
func span(length engine.Millis) string {
	const day = 24 * time.Hour
	switch d := time.Duration(length) * time.Millisecond; {
	case length > 2*365*engine.Millis(day/time.Millisecond):
		return fmt.Sprintf("%.1f years", engine.Millis(0).Days(length)/365.25)
	case d > 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	default:
		return d.String()
	}
}

// messageID returns the id in the body, or where it has none the one that
// [MessageID] makes.
func (f *fields) messageID(e *Event) (string, error) {
	if !f.set(fieldMessageID) {
		reference := e.Phrase
		if !e.Type.HasPhrase() {
			reference = strconv.Itoa(int(e.ProductID))
		}
		return MessageID(e.UserID, e.Type, reference, string(f[fieldOccurredAt].Unquoted())), nil
	}
	id, err := f.text(fieldMessageID)
	if err != nil {
		return "", err
	}
	if len(id) == 0 || tooLong(id, MaxMessageRunes) {
		return "", refuseField(ReasonBadMessageID, fieldMessageID, "found %d characters, expected 1..%d",
			utf8.RuneCount(id), MaxMessageRunes)
	}
	return string(id), checkNul(fieldMessageID, id)
}
