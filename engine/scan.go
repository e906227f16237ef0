package engine

import "unicode/utf8"

// valueKind is the type of a JSON value; the zero value is no value at all.
type valueKind uint8

const (
	noValue valueKind = iota
	nullValue
	boolValue
	numberValue
	stringValue
	objectValue
	arrayValue
)

var valueKindNames = [...]string{"nothing", "null", "a boolean", "a number", "a string", "an object", "an array"}

// String returns the kind with its article, for error texts.
func (k valueKind) String() string { return valueKindNames[k] }

// token is a value as it stands in the body, which text aliases: a number's
// literal, what a string has between its quotes, nil for the other kinds.
type token struct {
	kind    valueKind
	escaped bool // a string with escapes
	integer bool // a number without fraction and exponent
	text    []byte
}

// unescaped returns the text of a string, in a copy only where it has escapes.
func (t token) unescaped() []byte {
	if !t.escaped {
		return t.text
	}
	return appendUnescaped(make([]byte, 0, len(t.text)), t.text)
}

// level is an object or array that is being read.
type level struct {
	closer  byte  // '}' or ']'
	started bool  // a member has been read
	keys    uint8 // keySet.count when it was opened
	opened  int32 // offset of its bracket
}

// scanner reads one JSON text in one pass. The text must be valid UTF-8.
//
// Its stack is an array of fixed size instead of recursion, so that the depth of
// a hostile body costs neither stack nor heap.
type scanner struct {
	body   []byte
	pos    int
	depth  int // levels in use
	levels [MaxDepth]level
	keySet
}

// peek returns the byte at pos, or 0 at the end: no JSON token starts with it.
func (s *scanner) peek() byte {
	if s.pos < len(s.body) {
		return s.body[s.pos]
	}
	return 0
}

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.body) && isSpace(s.body[s.pos]) {
		s.pos++
	}
}

func isSpace(c byte) bool {
	return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t')
}

// syntax returns the error for a text that goes on with something else than
// expected at pos.
func (s *scanner) syntax(expected string) error {
	if s.pos >= len(s.body) {
		return refuse(ReasonMalformedJSON, "body ends after %d bytes, expected %s", len(s.body), expected)
	}
	found, _ := utf8.DecodeRune(s.body[s.pos:])
	return refuse(ReasonMalformedJSON, "found %q at byte %d, expected %s", found, s.pos, expected)
}

// open enters the object or array whose bracket is at pos.
func (s *scanner) open() error {
	if s.depth == MaxDepth {
		return refuse(ReasonTooDeep, "found a level more at byte %d, expected objects and arrays at most %d deep",
			s.pos, MaxDepth)
	}
	closer := byte('}')
	if s.body[s.pos] == '[' {
		closer = ']'
	}
	s.levels[s.depth] = level{closer: closer, keys: s.count, opened: int32(s.pos)}
	s.depth++
	s.pos++
	return nil
}

// more goes to the next member of the innermost level, or leaves that level and
// returns false.
func (s *scanner) more() (bool, error) {
	l := &s.levels[s.depth-1]
	s.space()
	switch c := s.peek(); {
	case c == l.closer:
		s.pos++
		s.depth--
		s.count = l.keys
		return false, nil
	case !l.started:
		l.started = true
	case c != ',':
		return false, s.syntax("a comma or '" + string(l.closer) + "'")
	default:
		s.pos++
		s.space()
	}
	return true, nil
}

// name reads a member's key, unescaped, and goes on to its value.
func (s *scanner) name() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.syntax("a key in double quotes")
	}
	key, err := s.quotedString()
	if err != nil {
		return nil, err
	}
	s.space()
	if s.peek() != ':' {
		return nil, s.syntax("a colon after the key")
	}
	s.pos++
	s.space()
	return key.unescaped(), nil
}

// uniqueName does what name does, and refuses a key its object has already.
func (s *scanner) uniqueName() error {
	at := s.pos
	name, err := s.name()
	if err != nil {
		return err
	}
	return s.unique(name, at)
}

// unique refuses a key that its object has already. at is the key's offset.
func (s *scanner) unique(name []byte, at int) error {
	if !s.add(&s.levels[s.depth-1], name) {
		return duplicateKey(name, at)
	}
	return nil
}

func duplicateKey(name []byte, at int) error {
	return refuse(ReasonDuplicateKey, "found the key %s again at byte %d, expected each key once in its object",
		quoted(name), at)
}

// value reads the value at pos, with everything in it.
func (s *scanner) value() (token, error) {
	switch s.peek() {
	case '{':
		return token{kind: objectValue}, s.nested()
	case '[':
		return token{kind: arrayValue}, s.nested()
	default:
		return s.scalar()
	}
}

// nested reads the object or array at pos to its end.
func (s *scanner) nested() error {
	outer := s.depth
	err := s.open()
	for err == nil && s.depth > outer {
		var more bool
		if more, err = s.more(); err != nil || !more {
			continue
		}
		if s.levels[s.depth-1].closer == '}' {
			if err = s.uniqueName(); err != nil {
				break
			}
		}
		if c := s.peek(); c == '{' || c == '[' {
			err = s.open()
		} else {
			_, err = s.scalar()
		}
	}
	return err
}
