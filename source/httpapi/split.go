package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
)

// A split yields each item's literal text, in order. It ends with an error
// where the text between the items is at fault; what is inside an item is
// judged by its parser. Texts alias the body.

// splitLines yields the lines of NDJSON that are not blank.
func splitLines(body []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line := range bytes.Lines(body) {
			if line = trim(line); len(line) > 0 && !yield(line, nil) {
				return
			}
		}
	}
}

// splitJSON yields the elements of an array, or the whole body where it is
// none.
//
// Elements are cut at commas outside of strings and brackets, without checking
// the brackets against each other. That is enough: where every element turns
// out to be one valid JSON object, the cuts are where a JSON parser makes them,
// and where one does not, the request is refused.
func splitJSON(body []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		body = trim(body)
		if len(body) == 0 || body[0] != '[' {
			yield(body, nil)
			return
		}
		rest := trim(body[1:])
		if len(rest) > 0 && rest[0] == ']' {
			yieldTail(rest[1:], yield)
			return
		}
		for {
			n := elementEnd(rest)
			if n == len(rest) {
				yield(nil, errors.New("the array has no end: a bracket or a quotation mark is missing"))
				return
			}
			if !yield(trim(rest[:n]), nil) {
				return
			}
			end := rest[n]
			rest = rest[n+1:]
			if end == ']' {
				yieldTail(rest, yield)
				return
			}
		}
	}
}

// yieldTail checks that nothing follows the array.
func yieldTail(tail []byte, yield func([]byte, error) bool) {
	if tail = trim(tail); len(tail) > 0 {
		yield(nil, fmt.Errorf("%d bytes follow the array: send one JSON value, or NDJSON as application/x-ndjson", len(tail)))
	}
}

// elementEnd returns the offset of the comma or bracket that ends the element b
// starts with, or len(b).
func elementEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:])
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// stringEnd returns the offset of the quotation mark that closes the string b
// starts with, or len(b).
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(b)
}

// jsonSpace is what JSON takes for white space.
const jsonSpace = " \t\r\n"

// trim removes JSON's white space, and no other.
func trim(b []byte) []byte { return bytes.Trim(b, jsonSpace) }
