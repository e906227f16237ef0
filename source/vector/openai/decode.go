package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"keyfold/engine"
)

// answer is what the API sends. Index is a pointer to tell 0 from absent.
type answer struct {
	Data []struct {
		Index     *int            `json:"index"`
		Embedding json.RawMessage `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Prompt int64 `json:"prompt_tokens"`
		Total  int64 `json:"total_tokens"`
	} `json:"usage"`
}

// decode reads an answer to that many inputs and returns its vectors in the
// inputs' order. The tokens are those the server counted, also where the
// vectors do not fit: they were paid for.
func decode(body []byte, inputs, dimensions int) (vectors [][]float32, tokens int64, err error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, 0, fmt.Errorf("it is no whole JSON: %w", err)
	}
	tokens = max(a.Usage.Total, a.Usage.Prompt)
	if len(a.Data) != inputs {
		return nil, tokens, fmt.Errorf("%d vectors for %d inputs", len(a.Data), inputs)
	}
	vectors = make([][]float32, inputs)
	for _, d := range a.Data {
		if d.Index == nil || *d.Index < 0 || *d.Index >= inputs {
			return nil, tokens, fmt.Errorf("a vector without an index from 0 to %d", inputs-1)
		}
		if vectors[*d.Index] != nil {
			return nil, tokens, fmt.Errorf("two vectors with the index %d", *d.Index)
		}
		v, err := parseVector(d.Embedding, dimensions)
		if err != nil {
			return nil, tokens, fmt.Errorf("vector %d: %w", *d.Index, err)
		}
		vectors[*d.Index] = v
	}
	return vectors, tokens, nil
}

// parseVector reads base64 of little-endian float32, or an array of numbers.
// raw is known to be JSON.
func parseVector(raw json.RawMessage, dimensions int) (vector []float32, err error) {
	if len(raw) > 0 && raw[0] == '"' {
		vector, err = parseBase64(raw, dimensions)
	} else {
		vector, err = parseFloats(raw, dimensions)
	}
	if err == nil {
		_, err = engine.Norm(vector)
	}
	return vector, err
}

func wrongLength(n, dimensions int) error {
	return fmt.Errorf("it has %d components, %s is %d: set it to what the model makes", n, dimensionsSetting, dimensions)
}

func parseBase64(raw json.RawMessage, dimensions int) ([]float32, error) {
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 { // "\/" is a slash in JSON
		var unescaped string
		if err := json.Unmarshal(raw, &unescaped); err != nil {
			return nil, err
		}
		text = []byte(unescaped)
	}
	packed := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(packed, text)
	if err != nil {
		return nil, fmt.Errorf("it is no base64: %w", err)
	}
	if packed = packed[:n]; n != 4*dimensions {
		return nil, wrongLength(n/4, dimensions)
	}
	vector := make([]float32, dimensions)
	_, err = binary.Decode(packed, binary.LittleEndian, vector)
	return vector, err
}

func parseFloats(raw json.RawMessage, dimensions int) ([]float32, error) {
	if len(raw) < 2 || raw[0] != '[' {
		return nil, errors.New("it is no array of numbers")
	}
	vector := make([]float32, 0, dimensions)
	for component := range strings.SplitSeq(string(raw[1:len(raw)-1]), ",") {
		c, err := strconv.ParseFloat(strings.TrimSpace(component), 32)
		if err != nil {
			return nil, fmt.Errorf("component %d is no number a float32 holds", len(vector))
		}
		vector = append(vector, float32(c))
	}
	if len(vector) != dimensions {
		return nil, wrongLength(len(vector), dimensions)
	}
	return vector, nil
}
