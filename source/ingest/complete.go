package ingest

import (
	"bytes"
	"encoding/json"
)

// version is that of the message format, filled in where an event has none.
const version = "1.0"

// complete returns body with the message_id and the version that it lacks, and
// all else literally as it came; body itself where it lacks nothing. It must be
// a body that [engine.ParseEvent] has read, and messageID the id it was given.
//
// The id is fixed here: whatever reads the event later takes it from the body,
// and never makes it again.
func complete(body []byte, messageID string) []byte {
	m := survey(body)
	if m.hasID && m.hasVersion {
		return body
	}
	var tail []byte
	if !m.hasID && m.nullEnd == 0 {
		tail = append(tail, `,"message_id":"`+messageID+`"`...)
	}
	if !m.hasVersion {
		tail = append(tail, `,"version":"`+version+`"`...)
	}
	whole := make([]byte, 0, len(body)+len(tail)+len(messageID)+2)
	if m.nullEnd > 0 {
		whole = append(whole, body[:m.nullEnd-len("null")]...)
		whole = append(whole, '"')
		whole = append(whole, messageID...)
		whole = append(whole, '"')
	}
	whole = append(whole, body[m.nullEnd:m.end]...)
	whole = append(whole, tail...)
	return append(whole, body[m.end:]...)
}

// members is what completing a body needs to know of it.
type members struct {
	hasID, hasVersion bool
	nullEnd           int // where the null ends that stands for the id; 0: there is none
	end               int // offset of the object's closing bracket
}

// survey looks for the two keys at the top level. A valid event's message_id is
// a string or null, its version a string.
func survey(body []byte) (m members) {
	i := bytes.IndexByte(body, '{') + 1
	for {
		i += space(body[i:])
		keyEnd := i + stringEnd(body[i:])
		key := body[i+1 : keyEnd]
		i = keyEnd + 1
		i += space(body[i:]) + 1 // the colon
		i += space(body[i:])
		value := body[i:]
		i += elementEnd(value)
		switch literal(key) {
		case "message_id":
			m.hasID = value[0] == '"'
			if !m.hasID {
				m.nullEnd = len(body) - len(value) + len("null")
			}
		case "version":
			m.hasVersion = true
		}
		if body[i] == '}' {
			m.end = i
			return m
		}
		i++ // the comma
	}
}

// space returns how much white space b starts with.
func space(b []byte) int { return len(b) - len(bytes.TrimLeft(b, jsonSpace)) }

// literal returns a key without its escapes.
func literal(key []byte) string {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key)
	}
	var text string
	quoted := append(append([]byte{'"'}, key...), '"')
	_ = json.Unmarshal(quoted, &text) // of a body that was read: the escapes are good
	return text
}
