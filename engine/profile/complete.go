package profile

import (
	"time"

	"keyfold/engine"
)

// CompleteEvent reads an event as [ParseEvent] does, and returns its body with
// the message_id and the version that it lacks, and all else literally as it
// came; body itself where it lacks nothing.
//
// The id is fixed here: what reads the event later takes it from the body, and
// never makes it again.
func CompleteEvent(body []byte, now time.Time) (Event, []byte, error) {
	var f fields
	end, err := f.read(body)
	if err != nil {
		return Event{}, nil, err
	}
	e, err := f.event(engine.MillisOf(now))
	if err != nil {
		return Event{}, nil, err
	}
	return e, f.complete(body, end-1, e.MessageID), nil
}

// complete fills in the fields. brace is the offset of the closing brace.
func (f *fields) complete(body []byte, brace int, messageID string) []byte {
	id, hasVersion := f[fieldMessageID], f[fieldVersion].Kind() != engine.NoValue
	if id.Kind() == engine.StringValue && hasVersion {
		return body
	}
	whole := make([]byte, 0, len(body)+len(`,"message_id":"","version":"1.0"`)+len(messageID))
	rest := 0
	if id.Kind() == engine.NullValue {
		whole = append(append(whole, body[:id.Offset]...), `"`+messageID+`"`...)
		rest = id.Offset + len(id.Text)
	}
	whole = append(whole, body[rest:brace]...)
	if id.Kind() == engine.NoValue {
		whole = append(whole, `,"message_id":"`+messageID+`"`...)
	}
	if !hasVersion {
		whole = append(whole, `,"version":"1.0"`...)
	}
	return append(whole, body[brace:]...)
}
