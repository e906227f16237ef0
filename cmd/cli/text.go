package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Text writes lines and keeps the first error.
type Text struct {
	W   io.Writer
	Err error
}

// Line writes one line.
func (t *Text) Line(format string, args ...any) {
	if t.Err == nil {
		_, t.Err = fmt.Fprintf(t.W, format+"\n", args...)
	}
}

// Row writes a named count and what it means.
func (t *Text) Row(name string, n int64, what string) {
	t.Line("  %-10s %12s  %s", name, Number(n), what)
}

// Number groups digits by thousands.
func Number(n int64) string {
	if n < 0 {
		return "-" + Number(-n)
	}
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count writes a number with its noun: "1 profile", "1,241 profiles". The plural
// adds an s.
func Count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Number(n) + " " + noun
}

// Printable replaces the characters that could command a terminal: any program that
// can send an event may have written the text.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
