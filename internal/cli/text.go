package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
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
	t.Line("%s", strings.TrimRight(fmt.Sprintf("  %-10s %12s  %s", name, Number(n), what), " "))
}

// Table writes rows below their heads, the first column to the left, the others to the right.
func (t *Text) Table(head []string, rows [][]string) {
	widths := make([]int, len(head))
	all := append([][]string{head}, rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range all {
		line := fmt.Sprintf("  %-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*s", widths[i+1], cell)
		}
		t.Line("%s", strings.TrimRight(line, " "))
	}
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

// At writes a point in time to the second, in UTC.
func At(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Age writes a length of time in its largest unit, as filters read it: "40s", "5m",
// "3h", "12d".
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= unit.length {
			return fmt.Sprint(int64(d/unit.length), unit.name)
		}
	}
	return fmt.Sprint(max(0, int64(d/time.Second)), "s")
}

// Shorten cuts text to n characters at most, the last of which is then an ellipsis.
func Shorten(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
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
