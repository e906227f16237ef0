package engine

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Reasons for which a body is refused, whichever application reads it. They are
// stable: they label counters and stand in dead letters.
const (
	// The body as a whole.
	ReasonBodyTooLarge = "body_too_large" // over the limit of its kind
	ReasonInvalidUTF8  = "invalid_utf8"

	// The JSON text, RFC 8259 without its leniencies.
	ReasonMalformedJSON = "malformed_json" // not one JSON object; also a byte order mark
	ReasonTrailingData  = "trailing_data"  // something after the object
	ReasonTooDeep       = "too_deep"       // nested deeper than [MaxDepth]
	ReasonLoneSurrogate = "lone_surrogate" // half of a \uD83D\uDE00 pair, in any string
	ReasonDuplicateKey  = "duplicate_key"  // at any depth, compared after unescaping
	ReasonWrongKeyCase  = "wrong_key_case" // "User_ID" for "user_id"

	// The fields one by one.
	ReasonMissingField      = "missing_field"
	ReasonWrongType         = "wrong_type" // another JSON type; an id with a fraction or exponent
	ReasonUnknownEventType  = "unknown_event_type"
	ReasonIDOutOfRange      = "id_out_of_range"          // not 1..2147483647
	ReasonNulCharacter      = "nul_character"            // \u0000, which SQL text columns do not keep
	ReasonBadTimestamp      = "bad_timestamp"            // not RFC 3339, no such day or time, or before [Earliest]
	ReasonTimestampNoOffset = "timestamp_without_offset" // a local time
	ReasonFutureEvent       = "future_event"             // too far ahead
)

// maxQuoted bounds how much of an offending token an error repeats, in bytes:
// errors go to logs, and logs hold no payloads.
const maxQuoted = 32

// Refuse returns the permanent error of one reason. Its text says what was found
// and what is expected; search phrases never go into it.
func Refuse(reason, format string, args ...any) error {
	return PermanentError(reason, fmt.Errorf(format, args...))
}

// Quoted returns the start of a token, at most 32 bytes of it, quoted and cut
// between characters: errors repeat no more of a body.
func Quoted(text []byte) string {
	if len(text) <= maxQuoted {
		return strconv.Quote(string(text))
	}
	end := maxQuoted
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strconv.Quote(string(text[:end])) + "..."
}
