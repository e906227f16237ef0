package profile

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"

	"keyfold/engine"
)

// quick reads events of the one common shape: an object without white space but single blanks
// behind its commas and colons, with keyfold's own keys alone, texts without escapes, metadata
// without objects in it, and a message_id. It either has the event that the strict reading
// (see [ParseEvent]) has of the same body, or none: it refuses nothing, and what is unusual,
// or wrong, is read again strictly. BenchmarkParseEvent and BenchmarkParseStrictly tell what
// that saves.
type quick struct {
	body []byte
	at   int // what was read
	seen uint16
	cuts [maxCuts]cut // where the values are that differ from one event to the next, in their order
	n    int          // how many cuts there are
}

// event reads the event. inPlace leaves its message id in the body's memory.
func (q *quick) event(now engine.Millis, inPlace bool) (e Event, ok bool) {
	var phrase, id []byte
	if len(q.body) > MaxBodyBytes || !q.byte('{') {
		return e, false
	}
	for more := true; more; {
		name, read := q.name()
		if !read || !q.value(fieldOf(name), &e, &phrase, &id) {
			return e, false
		}
		if more = q.byte(','); more {
			q.blank()
		}
	}
	if !q.byte('}') || q.at != len(q.body) || q.seen&needed != needed || !fits(&e, phrase, now) {
		return e, false
	}
	e.Phrase = string(phrase)
	e.Digest = digestOf(id)
	if inPlace {
		e.MessageID = unsafe.String(unsafe.SliceData(id), len(id))
	} else {
		e.MessageID = string(id)
	}
	return e, true
}

// needed are the fields without which an event is unusual.
const needed = 1<<fieldUserID | 1<<fieldEventType | 1<<fieldOccurredAt | 1<<fieldMessageID

// fits reports whether the fields go together: the checks of [fields.event] that are of
// several fields, or of the time.
func fits(e *Event, phrase []byte, now engine.Millis) bool {
	if e.OccurredAt < engine.Earliest || e.OccurredAt-now > MaxFutureMillis {
		return false
	}
	if e.Type.HasPhrase() {
		return checkSearch(e, phrase) == nil
	}
	return checkProductEvent(e, phrase) == nil
}

// value reads the value of a field, each field once.
func (q *quick) value(name field, e *Event, phrase, id *[]byte) (ok bool) {
	if q.seen&(1<<name) != 0 {
		return false
	}
	q.seen |= 1 << name
	from := q.at
	switch name {
	case fieldUserID:
		e.UserID, ok = q.id()
		q.cut(name, from)
	case fieldProductID:
		if ok = q.null(); !ok {
			e.ProductID, ok = q.id()
			q.cut(name, from)
		}
	case fieldEventType:
		var text []byte
		text, ok = q.text()
		e.Type = ParseEventType(string(text))
		ok = ok && e.Type != 0
	case fieldPhrase:
		if ok = q.null(); !ok {
			*phrase, ok = q.text()
		}
	case fieldOccurredAt:
		e.OccurredAt, ok = q.time()
		q.cut(name, from)
	case fieldMessageID:
		*id, ok = q.text()
		ok = ok && len(*id) > 0 && !tooLong(*id, MaxMessageRunes)
		q.cut(name, from)
	case fieldVersion:
		var text []byte
		text, ok = q.text()
		ok = ok && string(text) == "1.0"
	case fieldMetadata:
		ok = q.null() || q.metadata()
	}
	return ok
}

func (q *quick) time() (engine.Millis, bool) {
	text, ok := q.text()
	if !ok {
		return 0, false
	}
	at, err := engine.ParseTimestamp(text)
	return at, err == nil
}

// byte reads a byte if it is this one.
func (q *quick) byte(b byte) bool {
	if q.at < len(q.body) && q.body[q.at] == b {
		q.at++
		return true
	}
	return false
}

// blank reads the blank that some writers have behind commas and colons.
func (q *quick) blank() { q.byte(' ') }

// name reads a key and its colon.
func (q *quick) name() ([]byte, bool) {
	name, ok := q.text()
	ok = ok && q.byte(':')
	q.blank()
	return name, ok
}

func (q *quick) null() bool { return q.word("null") }

// word reads a literal. What follows is read as a comma or the end, so that a longer one is none.
func (q *quick) word(w string) bool {
	if len(q.body)-q.at < len(w) || string(q.body[q.at:q.at+len(w)]) != w {
		return false
	}
	q.at += len(w)
	return true
}

// maxQuickDigits bounds integers to those that cannot overflow an int32.
const maxQuickDigits = 9

// id reads a positive integer.
func (q *quick) id() (n int32, ok bool) {
	start := q.at
	for q.at < len(q.body) && q.body[q.at]-'0' <= 9 && q.at-start < maxQuickDigits {
		n = n*10 + int32(q.body[q.at]-'0')
		q.at++
	}
	return n, q.at > start && q.body[start] != '0'
}

// digits skips digits and reports whether there was one.
func (q *quick) digits() bool {
	start := q.at
	for q.at < len(q.body) && q.body[q.at]-'0' <= 9 {
		q.at++
	}
	return q.at > start
}

// number skips a number without an exponent.
func (q *quick) number() bool {
	q.byte('-')
	if !q.byte('0') && !q.digits() {
		return false
	}
	return !q.byte('.') || q.digits()
}

// maxQuickKeys bounds the keys of metadata, which are compared with each other.
const maxQuickKeys = 8

// metadata skips an object of texts, numbers, booleans and nulls, or an empty array.
func (q *quick) metadata() bool {
	if q.word("[]") || q.word("{}") {
		return true
	}
	if !q.byte('{') {
		return false
	}
	var names [maxQuickKeys][]byte
	for n := 0; n < maxQuickKeys; n++ {
		name, ok := q.name()
		if !ok || !q.scalar() {
			return false
		}
		for _, other := range names[:n] {
			if string(other) == string(name) {
				return false
			}
		}
		names[n] = name
		if !q.byte(',') {
			return q.byte('}')
		}
		q.blank()
	}
	return false
}

// scalar skips a value that is neither object nor array.
func (q *quick) scalar() bool {
	if q.at >= len(q.body) {
		return false
	}
	switch q.body[q.at] {
	case '"':
		_, ok := q.text()
		return ok
	case 'n', 't', 'f':
		return q.null() || q.word("true") || q.word("false")
	default:
		return q.number()
	}
}

// text reads a string without escapes, in place and without its quotes.
func (q *quick) text() ([]byte, bool) {
	if !q.byte('"') {
		return nil, false
	}
	start, ascii := q.at, true
	for {
		q.at += plain(q.body[q.at:])
		if q.at == len(q.body) {
			return nil, false
		}
		switch b := q.body[q.at]; {
		case b == '"':
			text := q.body[start:q.at]
			q.at++
			return text, ascii || utf8.Valid(text)
		case b >= utf8.RuneSelf:
			ascii = false
			q.at++
		default: // an escape, or a control character
			return nil, false
		}
	}
}

// Each byte of a word of 8.
const (
	lowest  = 0x0101010101010101
	highest = 0x80 * lowest
)

// plain returns how many bytes there are before the first that is a quote, a backslash, a
// control character or not ASCII: eight at a time, as texts are most of a body.
func plain(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// A byte's highest bit is set where it is such a one. Borrows reach only those
		// behind, and the first counts.
		quote, backslash := w^('"'*lowest), w^('\\'*lowest)
		if odd := (w | (w - ' '*lowest) | (quote - lowest) | (backslash - lowest)) & highest; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}
