package ingest

import (
	"encoding/json"
	"strconv"
	"strings"

	"keyfold/engine"
)

// fieldOf names the field of each reason that only one field can have.
var fieldOf = map[string]string{
	engine.ReasonUnsupportedVersion:   "version",
	engine.ReasonMetadataNotObject:    "metadata",
	engine.ReasonUnknownEventType:     "event_type",
	engine.ReasonPhraseTooLong:        "search_phrase",
	engine.ReasonSearchWithoutPhrase:  "search_phrase",
	engine.ReasonProductEventNoTarget: "product_id",
	engine.ReasonBadTimestamp:         "occurred_at",
	engine.ReasonTimestampNoOffset:    "occurred_at",
	engine.ReasonFutureEvent:          "occurred_at",
	engine.ReasonBadMessageID:         "message_id",
}

// faulty tells for each reason that several fields can have which of them,
// given in the order in which they are judged, has it.
var faulty = map[string]struct {
	fields []string
	is     func(field string, value json.RawMessage) bool
}{
	engine.ReasonMissingField: {
		[]string{"user_id", "event_type", "occurred_at"},
		func(_ string, value json.RawMessage) bool { return value == nil },
	},
	engine.ReasonWrongType: {
		[]string{"user_id", "event_type", "product_id", "search_phrase", "occurred_at", "message_id"},
		hasWrongType,
	},
	engine.ReasonIDOutOfRange: {
		[]string{"user_id", "product_id"},
		func(_ string, value json.RawMessage) bool {
			n, err := strconv.ParseInt(string(value), 10, 32)
			return string(value) != "null" && value != nil && (err != nil || n < 1)
		},
	},
	engine.ReasonNulCharacter: {
		[]string{"search_phrase", "message_id"},
		func(_ string, value json.RawMessage) bool { return strings.Contains(textOf(value), "\x00") },
	},
}

// fieldAtFault names the field for which an event was refused, "" where the
// fault is in the text as a whole.
func fieldAtFault(event []byte, reason string) string {
	if name, ok := fieldOf[reason]; ok {
		return name
	}
	var fields map[string]json.RawMessage
	rule, ok := faulty[reason]
	if !ok && reason != engine.ReasonPhraseAndProduct || json.Unmarshal(event, &fields) != nil {
		return ""
	}
	if !ok { // of the two, the one that its type of event must not have
		if textOf(fields["event_type"]) == engine.Search.String() {
			return "product_id"
		}
		return "search_phrase"
	}
	for _, name := range rule.fields {
		if rule.is(name, fields[name]) {
			return name
		}
	}
	return ""
}

// hasWrongType reports whether a value is not of its field's type. Where the
// field may also be absent or null, that is no fault.
func hasWrongType(field string, value json.RawMessage) bool {
	if value == nil {
		return false
	}
	isNull := string(value) == "null"
	switch field {
	case "user_id":
		return !isInteger(value)
	case "product_id":
		return !isNull && !isInteger(value)
	case "search_phrase", "message_id":
		return !isNull && value[0] != '"'
	default:
		return value[0] != '"'
	}
}

func isInteger(value json.RawMessage) bool {
	return strings.Trim(string(value), "-0123456789") == ""
}

// textOf returns a string's text, "" for any other value.
func textOf(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s)
	return s
}
