package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// fields are the names a line's fields are known by.
var fields = [...]string{"product_id", "product_name", "category", "embedding", "embedding_model"}

// parseProduct reads one line.
func parseProduct(line []byte) (profile.Product, error) {
	if bytes.TrimSpace(line)[0] != '{' {
		return profile.Product{}, errors.New("it is no JSON object: write one {...} per line")
	}
	var p profile.Product
	_, err := engine.ReadObject(line, func(key []byte, value engine.Value) (err error) {
		name := string(key)
		switch name {
		case "product_id":
			p.ID, err = parseID(value.Text)
		case "product_name":
			p.Name, err = parseText(value)
		case "category":
			p.Category, err = parseText(value)
		case "embedding":
			p.Vector, err = parseVector(value.Text)
		case "embedding_model":
			p.Model, err = parseText(value)
		default:
			err = misspelt(name)
		}
		if err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
		return nil
	})
	if err == nil && p.ID == 0 {
		err = errors.New("product_id is absent: every product needs one")
	}
	if err != nil {
		return profile.Product{}, withCure(err)
	}
	return p, nil
}

// withCure says what to do about a line that is not one strict JSON object.
func withCure(err error) error {
	switch reason := engine.ReasonOf(err); {
	case reason == engine.ReasonInvalidUTF8:
		return fmt.Errorf("it is not UTF-8, convert the file: %w", err)
	case reason == engine.ReasonLoneSurrogate:
		return fmt.Errorf("a text ends inside a character, shorten it by whole characters: %w", err)
	case reason == engine.ReasonTrailingData:
		return fmt.Errorf("something follows the object, write one per line: %w", err)
	case errors.Is(err, engine.ErrCutOff):
		return fmt.Errorf("write the JSON object on one line: %w", err)
	case reason == engine.ReasonMalformedJSON:
		return fmt.Errorf("it is no JSON: %w", err)
	default:
		return err
	}
}

func parseID(value []byte) (int32, error) {
	id, err := strconv.ParseInt(string(value), 10, 32)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("is %s: it must be an integer from 1 to %d", excerpt(value), math.MaxInt32)
	}
	return int32(id), nil
}

func parseText(value engine.Value) (string, error) {
	switch {
	case value.Text[0] == '"':
		return string(value.Unquoted()), nil
	case string(value.Text) == "null":
		return "", nil
	default:
		return "", fmt.Errorf("is %s: it must be a string or null", excerpt(value.Text))
	}
}

// parseVector reads an array of numbers. The value is known to be JSON, so that
// between its brackets and commas ParseFloat accepts numbers only.
func parseVector(value []byte) ([]float32, error) {
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
