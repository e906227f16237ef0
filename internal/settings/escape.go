package settings

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escaped returns a writer that escapes, as JSON does in its strings, the characters that
// could command a terminal and that encoders of JSON and of text logs let pass: DEL, the
// controls U+0080 to U+009F, and those that change the direction of a line or are not
// seen. A write has whole characters.
func Escaped(w io.Writer) io.Writer { return escaped{w} }

type escaped struct{ w io.Writer }

func (e escaped) Write(text []byte) (int, error) {
	if !bytes.ContainsFunc(text, commands) {
		return e.w.Write(text)
	}
	out := make([]byte, 0, len(text)+64)
	for rest := text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if !commands(r) {
			out = append(out, rest[:size]...)
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
		rest = rest[size:]
	}
	if _, err := e.w.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

// commands reports whether a character could command a terminal. Those below the space are
// the encoders' to escape. A byte that is no text is decoded as the replacement character.
func commands(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == utf8.RuneError || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
