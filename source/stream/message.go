package stream

import (
	"bytes"
	"errors"

	"keyfold/engine"
)

// Message is one AMQP 1.0 message, in place. It is read when it is asked: a message that
// cannot be read is no fault of its chunk's.
type Message struct{ raw []byte }

// Sections of a message.
const (
	headerSection     = 0x70 // the first
	identitySection   = 0x73 // properties, of which the first is the message's id
	propertiesSection = 0x74 // application properties
	dataSection       = 0x75
	sequenceSection   = 0x76
	valueSection      = 0x77
	footerSection     = 0x78 // the last
)

// ReasonMalformedMessage is the reason of messages that are not AMQP 1.0 with one data
// section. Their errors are permanent.
const ReasonMalformedMessage = "malformed_message"

var (
	errMalformed = malformed("the message is not AMQP 1.0")
	errNoData    = malformed("the message has no data section")
	errData      = malformed("the message has several data sections")
	errOther     = malformed("the body of the message is an AMQP value or sequence: publish it as data")
)

func malformed(text string) error {
	return engine.PermanentError(ReasonMalformedMessage, errors.New(text))
}

// Body returns the content of the data section, in place. Its errors are permanent.
func (m Message) Body() ([]byte, error) {
	var body []byte
	found := false
	r := cursor{rest: m.raw}
	for len(r.rest) > 0 {
		section, format, content := r.section()
		switch {
		case r.short:
			return nil, errMalformed
		case section == sequenceSection, section == valueSection:
			return nil, errOther
		case section != dataSection:
			continue
		case found:
			return nil, errData
		case format != binary8 && format != binary32:
			return nil, errMalformed
		}
		body, found = content, true
	}
	if !found {
		return nil, errNoData
	}
	return body, nil
}

// Clone returns the message in memory of its own.
func (m Message) Clone() Message { return Message{raw: bytes.Clone(m.raw)} }

// Size returns how many bytes the message takes in memory.
func (m Message) Size() int { return len(m.raw) }

// Headers returns the application properties, nil where there are none: strings, int64,
// bool, float64, time.Time, []byte and nil. Those of other types are left out, as are those
// without a text for a name. Its errors are permanent.
func (m Message) Headers() (map[string]any, error) {
	r := cursor{rest: m.raw}
	for len(r.rest) > 0 {
		section, format, content := r.section()
		if r.short {
			return nil, errMalformed
		}
		if section == propertiesSection {
			return headers(format, content)
		}
	}
	return nil, nil
}

// ID returns the message's id where it is a text, "" where there is none.
func (m Message) ID() string {
	r := cursor{rest: m.raw}
	for len(r.rest) > 0 {
		section, format, content := r.section()
		if r.short || section >= propertiesSection {
			return ""
		}
		if section == identitySection {
			return firstText(format, content)
		}
	}
	return ""
}

// firstText returns the first item of a list, where it is a text.
func firstText(format byte, content []byte) string {
	r := cursor{rest: content}
	switch format {
	case list8:
		r.u8() // how many items there are
	case list32:
		r.u32()
	default:
		return ""
	}
	if item, known := native(r.value()); known && !r.short {
		text, _ := item.(string)
		return text
	}
	return ""
}

// section reads a section, in place.
func (c *cursor) section() (section uint64, format byte, content []byte) {
	if c.u8() != described {
		c.short = true
		return 0, 0, nil
	}
	descriptor, code := c.value()
	switch descriptor {
	case smallUlong:
		section = uint64((&cursor{rest: code}).u8())
	case ulong:
		section = (&cursor{rest: code}).u64()
	}
	if section < headerSection || section > footerSection {
		c.short = true
	}
	format, content = c.value()
	return section, format, content
}

// headers reads a map of names and values.
func headers(format byte, content []byte) (map[string]any, error) {
	r := cursor{rest: content}
	var count uint32
	switch format {
	case map8:
		count = uint32(r.u8())
	case map32:
		count = r.u32()
	default:
		return nil, errMalformed
	}
	all := map[string]any{}
	for range count / 2 {
		name, isText := native(r.value())
		value, known := native(r.value())
		if r.short {
			return nil, errMalformed
		}
		if name, isString := name.(string); isText && isString && known {
			all[name] = value
		}
	}
	return all, nil
}
