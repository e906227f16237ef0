package notifications

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"keyfold/internal/cli"
)

// items are the JSON texts of a file: the lines of NDJSON or the elements of an array.
type items struct {
	in      *cli.Input
	array   *json.Decoder // nil: NDJSON
	element int64         // that next returned last, from 1
}

// itemsOf looks at the first byte that is no white space.
func itemsOf(in *cli.Input) (*items, error) {
	for {
		first, err := in.Lines.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("it is empty: write one notification a line, or an array of them")
		case err != nil:
			return nil, err
		case first == '\n':
			in.Line++
		case first == ' ' || first == '\t' || first == '\r':
		default:
			if err := in.Lines.UnreadByte(); err != nil {
				return nil, err
			}
			all := &items{in: in}
			if first == '[' {
				all.array = json.NewDecoder(in.Lines)
				_, err = all.array.Token()
			}
			return all, err
		}
	}
}

// next returns the next text, or io.EOF. An array that is no JSON ends with an error:
// where its next element begins is not known.
func (i *items) next() ([]byte, error) {
	if i.array == nil {
		return i.in.Next()
	}
	if !i.array.More() {
		return nil, i.end()
	}
	i.element++
	var text json.RawMessage
	if err := i.array.Decode(&text); err != nil {
		return nil, fmt.Errorf("element %d: %s", i.element, err.Error()) // no io.EOF
	}
	return text, nil
}

// end returns io.EOF behind the array's bracket.
func (i *items) end() error {
	if _, err := i.array.Token(); err != nil {
		return fmt.Errorf("the array has no end behind element %d: %s", i.element, err.Error()) // no io.EOF
	}
	rest, err := io.ReadAll(io.LimitReader(io.MultiReader(i.array.Buffered(), i.in.Lines), 1<<10))
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("something follows the array: write one array, or one notification a line")
	}
	return io.EOF
}

// position is that of the text that next returned last.
func (i *items) position() badItem {
	if i.array == nil {
		return badItem{Line: i.in.Line}
	}
	return badItem{Element: i.element}
}
