package engine

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep objects and arrays may be nested.
const MaxDepth = 32

// Value is a JSON value as it stands in a text, which Text aliases. The zero
// value is no value at all.
type Value struct {
	Text   []byte // a string with its quotes, an object or array with its brackets
	Offset int    // of the first byte of Text
}

// Unquoted returns a string's text without quotes and escapes, in a copy only
// where it has escapes.
func (v Value) Unquoted() []byte {
	if bytes.IndexByte(v.Text, '\\') < 0 {
		return v.Text[1 : len(v.Text)-1]
	}
	text, _ := jsontext.AppendUnquote(make([]byte, 0, len(v.Text)), v.Text) // the reader found the escapes to be good
	return text
}

// ValueKind is the type of a JSON value.
type ValueKind uint8

// The kinds of values; [NoValue] is that of the zero Value.
const (
	NoValue ValueKind = iota
	NullValue
	BoolValue
	NumberValue
	StringValue
	ObjectValue
	ArrayValue
)

// String returns the kind with its article, for error texts.
func (k ValueKind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an object", "an array"}[k]
}

// kinds holds the kind of a value by its first byte.
var kinds = [256]ValueKind{
	'n': NullValue, 't': BoolValue, 'f': BoolValue, '"': StringValue, '{': ObjectValue, '[': ArrayValue,
	'-': NumberValue, '0': NumberValue, '1': NumberValue, '2': NumberValue, '3': NumberValue, '4': NumberValue,
	'5': NumberValue, '6': NumberValue, '7': NumberValue, '8': NumberValue, '9': NumberValue,
}

// Kind returns the type of the value.
func (v Value) Kind() ValueKind {
	if len(v.Text) == 0 {
		return NoValue
	}
	return kinds[v.Text[0]]
}

// ReadObject reads body, which must be one JSON object, calls member for each
// of its members with the unescaped name, and returns the offset behind the
// object's closing brace. An error of member ends the reading.
//
// The reading is strict at every depth: names stand once in their object, texts
// are UTF-8, escaped surrogates come in pairs, nothing but white space follows
// the object, and objects and arrays are at most [MaxDepth] deep. Its own errors
// are [Permanent]; those of a text that ends too early are [ErrCutOff] too.
func ReadObject(body []byte, member func(name []byte, value Value) error) (end int, err error) {
	r := readers.Get().(*reader)
	r.body, r.buffer = body, *bytes.NewBuffer(body)
	end, err = r.object(member)
	r.body, r.buffer = nil, bytes.Buffer{}
	r.Reset(&r.buffer) // also forgets the body
	readers.Put(r)
	if err != nil && !utf8.Valid(body) {
		return 0, Refuse(ReasonInvalidUTF8, "body: found a byte that is not UTF-8 at byte %d, expected UTF-8 only", invalidAt(body))
	}
	return end, err
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

// reader is a decoder that reads body in place, without a copy.
type reader struct {
	jsontext.Decoder
	buffer bytes.Buffer
	body   []byte
}

var readers = sync.Pool{New: func() any {
	r := new(reader)
	r.Reset(&r.buffer)
	return r
}}

func (r *reader) object(member func([]byte, Value) error) (end int, err error) {
	if start := r.skip(0, ' ', ' '); start == len(r.body) {
		return 0, cutOff(start, "one JSON object")
	} else if r.body[start] != '{' {
		found, _ := utf8.DecodeRune(r.body[start:])
		return 0, Refuse(ReasonMalformedJSON, "found %q at byte %d, expected one JSON object", found, start)
	}
	_, err = r.next()
	for err == nil {
		var name, value Value
		if name, err = r.next(); err != nil {
			break
		}
		if name.Kind() == NoValue { // the closing brace
			end = int(r.InputOffset())
			if next := r.skip(end, ' ', ' '); next < len(r.body) {
				err = Refuse(ReasonTrailingData, "body: found something more at byte %d of %d, expected one JSON object only",
					next, len(r.body))
			}
			return end, err
		}
		if value, err = r.value(); err == nil {
			err = member(name.Unquoted(), value)
		}
	}
	return 0, err
}

// skip returns the offset of the first byte from there on that is neither white
// space nor one of the two delimiters.
func (r *reader) skip(from int, delimiter, other byte) int {
	for from < len(r.body) {
		switch r.body[from] {
		case ' ', '\n', '\r', '\t', delimiter, other:
			from++
		default:
			return from
		}
	}
	return from
}

// next reads a name, a scalar or a bracket.
func (r *reader) next() (Value, error) {
	start := int(r.InputOffset())
	if _, err := r.ReadToken(); err != nil {
		return Value{}, r.fault(err)
	}
	start = r.skip(start, ',', ':')
	return Value{r.body[start:r.InputOffset()], start}, nil
}

// value reads a member's value, with everything in it. It goes token by token,
// so that the depth of a hostile body costs no stack.
func (r *reader) value() (Value, error) {
	v, err := r.next()
	if err != nil || v.Kind() < ObjectValue {
		return v, err
	}
	for depth := r.StackDepth(); depth > 1; depth = r.StackDepth() {
		if depth > MaxDepth {
			return v, Refuse(ReasonTooDeep, "found a level more at byte %d, expected objects and arrays at most %d deep",
				r.InputOffset()-1, MaxDepth)
		}
		if _, err = r.ReadToken(); err != nil {
			return v, r.fault(err)
		}
	}
	v.Text = r.body[v.Offset:r.InputOffset()]
	return v, nil
}

// surrogateEscape matches an escaped half of a surrogate pair that is not before
// half an escape. The decoder refused it, thus the other half is missing.
var surrogateEscape = regexp.MustCompile(`^\\u[dD][89a-fA-F][[:xdigit:]]{2}(\\u[[:xdigit:]]{4}|\\[^u]|[^\\])`)

// fault returns a decoder's error under its reason.
func (r *reader) fault(err error) error {
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return cutOff(len(r.body), "the rest of a JSON object")
	}
	at := syntactic.ByteOffset
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return Refuse(ReasonDuplicateKey, "found the key %s again at byte %d, expected each key once in its object",
			Quoted([]byte(syntactic.JSONPointer.LastToken())), at)
	}
	if escape := surrogateEscape.Find(r.body[at:]); escape != nil {
		return Refuse(ReasonLoneSurrogate, `found the escape %s alone at byte %d, expected a surrogate pair`, escape[:6], at)
	}
	found, _ := utf8.DecodeRune(r.body[at:])
	return Refuse(ReasonMalformedJSON, "found %q at byte %d: %w", found, at, syntactic.Err)
}

// ErrCutOff is in the chain of a malformed text's error where it ends too early.
var ErrCutOff = errors.New("it is cut off")

func cutOff(size int, expected string) error {
	return Refuse(ReasonMalformedJSON, "body ends after %d bytes, expected %s: %w", size, expected, ErrCutOff)
}
