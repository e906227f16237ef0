package catalog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// maxLine is the longest line of a product file, in bytes: above twice what the
// most components any model has take up in decimal.
const maxLine = 1 << 20

// LineError says what is wrong with one line of a product file, and the cure.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error returns the text with the line's number.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// ReadProducts reads a product file: one JSON object a line, plain or gzip
// (told by its first bytes).
//
//	{"product_id":1,"product_name":"Ceramic Mug","category":"Home/Drinkware",
//	 "embedding":[0.1,-0.2],"embedding_model":"text-embedding-3-small"}
//
// product_id is an integer from 1 to 2147483647. All else may be null or
// absent; components are rounded to float32. Blank lines and other fields are
// skipped, except those that differ from one of these names in letter case
// only. The number of components is not checked: the reader knows no model.
//
// A line that cannot be read yields a [*LineError], which is permanent, and
// reading goes on behind it if the caller does. Any other error is the file's, and the last: it is
// transient as far as the reader knows. The sequence can be used once.
func ReadProducts(r io.Reader) iter.Seq2[profile.Product, error] {
	return func(yield func(profile.Product, error) bool) {
		lines, err := newLines(r)
		if err != nil {
			yield(profile.Product{}, err)
			return
		}
		for {
			line, err := lines.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(profile.Product{}, err)
				}
				return
			}
			p, err := parseProduct(line)
			if err != nil {
				err = &LineError{Line: lines.number, Err: engine.PermanentError("malformed_product", err)}
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// lines cuts a file into its lines that are not blank.
type lines struct {
	reader *bufio.Reader
	number int // of the line last returned, from 1
}

func newLines(r io.Reader) (*lines, error) {
	reader := bufio.NewReaderSize(r, maxLine)
	// A file too short for the two bytes is no gzip file; its error comes
	// back with the first line.
	if magic, _ := reader.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(reader)
		if err != nil {
			return nil, fmt.Errorf("product file is no whole gzip file, copy it again: %w", err)
		}
		reader = bufio.NewReaderSize(unzipped, maxLine)
	}
	if mark, _ := reader.Peek(3); string(mark) == "\uFEFF" {
		_, _ = reader.Discard(len(mark)) // they are buffered: it cannot fail
	}
	return &lines{reader: reader}, nil
}

// next returns the next line, valid until the one after it, or io.EOF.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.reader.ReadSlice('\n')
		l.number++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("line %d is over %d bytes: write one product per line", l.number, maxLine)
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("product file ends in line %d, copy it again: %w", l.number, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
