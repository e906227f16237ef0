package engine

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// scalar reads the string, number or literal name at pos.
func (s *scanner) scalar() (token, error) {
	switch s.peek() {
	case '"':
		return s.quotedString()
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	case 'n':
		return s.literal("null", nullValue)
	case 't':
		return s.literal("true", boolValue)
	case 'f':
		return s.literal("false", boolValue)
	default:
		return token{}, s.syntax("a value")
	}
}

// literal reads one of the three names of JSON.
func (s *scanner) literal(name string, kind valueKind) (token, error) {
	end := s.pos + len(name)
	if end > len(s.body) || string(s.body[s.pos:end]) != name {
		return token{}, s.syntax("a value")
	}
	s.pos = end
	return token{kind: kind}, nil
}

// number reads a number: RFC 8259, section 6.
func (s *scanner) number() (token, error) {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	// After a leading zero no digit may follow; one that does is refused by
	// whoever looks for the comma.
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return token{}, s.syntax("a digit")
	}
	integer := true
	if s.peek() == '.' {
		integer = false
		s.pos++
		if !s.digits() {
			return token{}, s.syntax("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		integer = false
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return token{}, s.syntax("a digit")
		}
	}
	return token{kind: numberValue, integer: integer, text: s.body[start:s.pos]}, nil
}

// digits skips digits and reports whether there were any.
func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.body) && isDigit(s.body[s.pos]) {
		s.pos++
	}
	return s.pos > start
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// quotedString reads the string whose opening quote is at pos.
func (s *scanner) quotedString() (token, error) {
	start := s.pos + 1
	s.pos = start
	escaped := false
	for {
		s.pos += plainPrefix(s.body[s.pos:])
		switch s.peek() {
		case '"':
			text := s.body[start:s.pos]
			s.pos++
			return token{kind: stringValue, escaped: escaped, text: text}, nil
		case '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return token{}, err
			}
		default:
			return token{}, s.syntax("a closing quote, or an escape for the control character")
		}
	}
}

// plainPrefix returns how many bytes stand before the first quote, backslash or
// control character. It looks at eight at a time, by the tests for a zero byte
// and for a byte less than n of "Bit Twiddling Hacks" (S. E. Anderson). Those
// can be wrong about bytes above the lowest they find, never about that one.
func plainPrefix(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// escape skips the escape sequence whose backslash is at pos.
func (s *scanner) escape() error {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return nil
	case 'u':
		return s.unicodeEscape()
	default:
		return s.syntax(`one of "\/bfnrtu after the backslash`)
	}
}

// unicodeEscape reads past uXXXX or uXXXX\uXXXX at pos. A surrogate without its other
// half is no character; decoders that replace it make two different phrases, or
// two different keys, one.
func (s *scanner) unicodeEscape() error {
	at := s.pos - 1
	high, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(high) {
		return err
	}
	if s.peek() == '\\' && s.pos+1 < len(s.body) && s.body[s.pos+1] == 'u' {
		s.pos++
		low, err := s.hex4()
		if err != nil {
			return err
		}
		if utf16.DecodeRune(high, low) != utf8.RuneError {
			return nil
		}
	}
	return refuse(ReasonLoneSurrogate, `found the escape \u%04x alone at byte %d, expected a surrogate pair`, high, at)
}

// hex4 reads the u at pos and four hexadecimal digits.
func (s *scanner) hex4() (rune, error) {
	s.pos++
	start := s.pos
	for range 4 {
		if hexDigits[s.peek()] == notHex {
			return 0, s.syntax("four hexadecimal digits")
		}
		s.pos++
	}
	return hexRune(s.body[start:]), nil
}

// hexRune returns the value of the first four bytes, hexadecimal digits.
func hexRune(b []byte) rune {
	b = b[:4]
	return rune(hexDigits[b[0]])<<12 | rune(hexDigits[b[1]])<<8 | rune(hexDigits[b[2]])<<4 | rune(hexDigits[b[3]])
}

const notHex = 0xff

// hexDigits maps each byte to its value as a hexadecimal digit.
var hexDigits = func() (values [256]byte) {
	for i := range values {
		values[i] = notHex
	}
	for i, c := range []byte("0123456789abcdef") {
		values[c] = byte(i)
		values[unicode.ToUpper(rune(c))] = byte(i)
	}
	return values
}()

// appendUnescaped appends a string's text with its escapes, which the scanner
// found to be good, replaced by what they stand for.
func appendUnescaped(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		c := text[i+1]
		text = text[i+2:]
		if c != 'u' {
			dst = append(dst, simpleEscape(c))
			continue
		}
		r := hexRune(text)
		text = text[4:]
		if utf16.IsSurrogate(r) {
			r = utf16.DecodeRune(r, hexRune(text[2:]))
			text = text[6:]
		}
		dst = utf8.AppendRune(dst, r)
	}
}

func simpleEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default: // the quote, the backslash, the slash
		return c
	}
}
