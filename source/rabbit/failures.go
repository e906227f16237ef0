package rabbit

import (
	"encoding/json"
	"errors"
	"strings"

	"keyfold/engine"
)

// MaxFailures is how many failures of one event are told.
const MaxFailures = 10

// Failure is one failed attempt.
type Failure struct {
	At  engine.Millis
	Err error
}

// Bounds of what a copy carries along.
const (
	maxCarriedFailures = 5
	maxCarriedText     = 200 // bytes of one error's text
	// maxErrorsHeader bounds what is read: every byte may be escaped to six.
	maxErrorsHeader = MaxFailures * (6*maxCarriedText + 64)
)

// carriedFailure is one failure in [HeaderErrors].
type carriedFailure struct {
	At    engine.Millis `json:"at"`
	Error string        `json:"error"`
}

// EncodeFailures returns [HeaderErrors]: it keeps the first failure, which tells since when, and the last.
func EncodeFailures(failures []Failure) string {
	carried := make([]carriedFailure, 0, maxCarriedFailures)
	for i, f := range failures {
		if i == 0 || i > len(failures)-maxCarriedFailures {
			carried = append(carried, carriedFailure{At: f.At, Error: Cut(f.Err.Error(), maxCarriedText)})
		}
	}
	// Strings and numbers cannot fail to encode.
	text, _ := json.Marshal(carried)
	return string(text)
}

// Failures returns what the copy's earlier attempts failed with, the oldest
// first; nothing where the header is not one of ours.
func (o *Original) Failures() []Failure {
	text, _ := o.Headers[HeaderErrors].(string)
	if text == "" || len(text) > maxErrorsHeader {
		return nil
	}
	var carried []carriedFailure
	if json.Unmarshal([]byte(text), &carried) != nil {
		return nil
	}
	carried = carried[:min(len(carried), MaxFailures)]
	failures := make([]Failure, len(carried))
	for i, f := range carried {
		failures[i] = Failure{At: f.At, Err: errors.New(Cut(f.Error, maxCarriedText))}
	}
	return failures
}

// Cut returns text as UTF-8 of at most limit bytes.
func Cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}
