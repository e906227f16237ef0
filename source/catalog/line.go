package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"keyfold/engine"
)

// fields are the names a line's fields are known by.
var fields = [...]string{"product_id", "product_name", "category", "embedding", "embedding_model"}

// parseProduct reads one line.
func parseProduct(line []byte) (engine.Product, error) {
	var p engine.Product
	if !utf8.Valid(line) {
		return p, errors.New("it is not UTF-8: convert the file")
	}
	err := eachField(line, func(name string, value json.RawMessage) (err error) {
		switch name {
		case "product_id":
			p.ID, err = parseID(value)
		case "product_name":
			p.Name, err = parseText(value)
		case "category":
			p.Category, err = parseText(value)
		case "embedding":
			p.Vector, err = parseVector(value)
		case "embedding_model":
			p.Model, err = parseText(value)
		default:
			err = misspelt(name)
		}
		return err
	})
	if err == nil && p.ID == 0 {
		err = errors.New("product_id is absent: every product needs one")
	}
	if err != nil {
		return engine.Product{}, err
	}
	return p, nil
}

// eachField calls field for every member of the one object the line must be.
// It looks at each name as it stands: the standard decoder into a struct would
// take the last of two equal names, and any letter case.
func eachField(line []byte, field func(string, json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	if start, err := decoder.Token(); err != nil {
		return malformed(err)
	} else if start != json.Delim('{') {
		return errors.New("it is no JSON object: write one {...} per line")
	}
	seen := make(map[string]bool, len(fields))
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return malformed(err)
		}
		name := token.(string) // the decoder refuses any other key
		if seen[name] {
			return fmt.Errorf("%s stands twice: keep one", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return malformed(err)
		}
		if err := field(name, value); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return malformed(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object: write one per line")
	}
	return nil
}

func malformed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON object is cut off: write it on one line")
	}
	return fmt.Errorf("it is no JSON: %w", err)
}

func parseID(value json.RawMessage) (int32, error) {
	id, err := strconv.ParseInt(string(value), 10, 32)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("is %s: it must be an integer from 1 to %d", excerpt(value), math.MaxInt32)
	}
	return int32(id), nil
}

func parseText(value json.RawMessage) (string, error) {
	var text *string
	if err := json.Unmarshal(value, &text); err != nil {
		return "", fmt.Errorf("is %s: it must be a string or null", excerpt(value))
	}
	if text == nil {
		return "", nil
	}
	return *text, nil
}

// parseVector reads an array of numbers. The value is known to be JSON, so that
// between its brackets and commas ParseFloat accepts numbers only: the decoder
// would read null as 0.
func parseVector(value json.RawMessage) ([]float32, error) {
	if string(value) == "null" {
		return nil, nil
	}
	if value[0] != '[' {
		return nil, fmt.Errorf("is %s: it must be an array of numbers or null", excerpt(value))
	}
	inner := string(bytes.TrimSpace(value[1 : len(value)-1]))
	if inner == "" {
		return nil, errors.New("is empty: leave it out to have it made by --embed")
	}
	vector := make([]float32, 0, 1+strings.Count(inner, ","))
	for component := range strings.SplitSeq(inner, ",") {
		component = strings.TrimSpace(component)
		c, err := strconv.ParseFloat(component, 32)
		if err != nil {
			return nil, fmt.Errorf("has %s for component %d: it must be a number that fits a float32",
				excerpt([]byte(component)), len(vector))
		}
		vector = append(vector, float32(c))
	}
	return vector, nil
}

// misspelt refuses a name that would be read if its letters were small: a whole
// catalogue without vectors is found out too late.
func misspelt(name string) error {
	for _, known := range fields {
		if strings.EqualFold(name, known) {
			return fmt.Errorf("is unknown: write %s", known)
		}
	}
	return nil
}

// excerpt returns a value's beginning, for a message.
func excerpt(value []byte) string {
	const most = 40
	if len(value) <= most {
		return string(value)
	}
	return strings.ToValidUTF8(string(value[:most]), "") + "…"
}
