package profile

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"keyfold/engine"
)

// faults is a set of reasons.
type faults map[string]bool

// reference reads a body with encoding/json, slowly, and returns the event or
// every fault that it finds. Faults of the text hide those of the fields.
func reference(body []byte, now time.Time) (Event, faults) {
	found := referenceText(body)
	if len(found) > 0 {
		return Event{}, found
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return Event{}, faults{engine.ReasonMalformedJSON: true}
	}
	r := referenceFields{fields, found}
	e := r.event(now)
	if len(found) > 0 {
		return Event{}, found
	}
	return e, nil
}

var (
	escapePattern = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)
	objectPattern = regexp.MustCompile(`^[ \t\r\n]*\{`)
	idPattern     = regexp.MustCompile(`^-?[0-9]+$`)
)

func referenceText(body []byte) faults {
	found := faults{}
	switch {
	case len(body) > MaxBodyBytes:
		found[engine.ReasonBodyTooLarge] = true
	case !utf8.Valid(body):
		found[engine.ReasonInvalidUTF8] = true
	case !json.Valid(body) || !objectPattern.Match(body):
		// Which of these comes first in a broken text is the reader's business.
		for _, reason := range []string{
			engine.ReasonMalformedJSON, engine.ReasonTrailingData, engine.ReasonTooDeep,
			engine.ReasonLoneSurrogate, engine.ReasonDuplicateKey, engine.ReasonWrongKeyCase,
		} {
			found[reason] = true
		}
	default:
		if loneSurrogate(body) {
			found[engine.ReasonLoneSurrogate] = true
		}
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		referenceWalk(decoder, 0, found)
	}
	return found
}

// loneSurrogate goes through the escapes of a valid text from the left. Outside
// of strings there are none.
func loneSurrogate(body []byte) bool {
	highEnd := -1 // end of a high half that waits for its low one
	for _, m := range escapePattern.FindAllIndex(body, -1) {
		escape := string(body[m[0]:m[1]])
		var code uint64
		if len(escape) == 6 {
			code, _ = strconv.ParseUint(escape[2:], 16, 32)
		}
		low := 0xdc00 <= code && code < 0xe000
		if low != (highEnd >= 0) || low && highEnd != m[0] {
			return true
		}
		highEnd = -1
		if 0xd800 <= code && code < 0xdc00 {
			highEnd = m[1]
		}
	}
	return highEnd >= 0
}

// referenceWalk looks through the next value for what a valid text may have and
// an event may not. The text is valid: errors cannot happen.
func referenceWalk(decoder *json.Decoder, depth int, found faults) {
	opening, _ := decoder.Token()
	delim, nested := opening.(json.Delim)
	if !nested {
		return
	}
	depth++
	if depth > engine.MaxDepth {
		found[engine.ReasonTooDeep] = true
	}
	seen := map[string]bool{}
	for decoder.More() {
		if delim == '{' {
			token, _ := decoder.Token()
			name := token.(string)
			if seen[name] {
				found[engine.ReasonDuplicateKey] = true
			}
			seen[name] = true
			for _, known := range fieldNames {
				if depth == 1 && name != known && strings.EqualFold(name, known) {
					found[engine.ReasonWrongKeyCase] = true
				}
			}
		}
		referenceWalk(decoder, depth, found)
	}
	_, _ = decoder.Token()
}

// referenceFields checks the fields one by one.
type referenceFields struct {
	raw   map[string]json.RawMessage
	found faults
}

func (r referenceFields) null(name string) bool {
	raw, there := r.raw[name]
	return !there || string(raw) == "null"
}

// required returns the JSON of a field that has to be there, else nil.
func (r referenceFields) required(name string) json.RawMessage {
	raw, there := r.raw[name]
	if !there {
		r.found[engine.ReasonMissingField] = true
	}
	return raw
}

// id returns the id of that name, 0 for a bad one.
func (r referenceFields) id(name string) int32 {
	raw := string(r.required(name))
	if raw == "" {
		return 0
	}
	if !idPattern.MatchString(raw) {
		r.found[engine.ReasonWrongType] = true
		return 0
	}
	var n int32
	if err := json.Unmarshal(r.raw[name], &n); err != nil || n < 1 {
		r.found[engine.ReasonIDOutOfRange] = true
		return 0
	}
	return n
}

func (r referenceFields) text(name string) string {
	raw := r.required(name)
	if raw == nil {
		return ""
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		r.found[engine.ReasonWrongType] = true
		return ""
	}
	return *s
}

func (r referenceFields) event(now time.Time) (e Event) {
	if raw, there := r.raw["version"]; there {
		var version any
		if err := json.Unmarshal(raw, &version); err != nil || version != "1.0" {
			r.found[ReasonUnsupportedVersion] = true
		}
	}
	var list []any
	if !r.null("metadata") && r.raw["metadata"][0] != '{' && (json.Unmarshal(r.raw["metadata"], &list) != nil || len(list) > 0) {
		r.found[ReasonMetadataNotObject] = true
	}
	e.UserID = r.id("user_id")
	for _, t := range EventTypes() { // proof/oracle has names of its own
		if r.text("event_type") == t.String() {
			e.Type = t
		}
	}
	if e.Type == 0 {
		r.found[engine.ReasonUnknownEventType] = true
	}
	r.target(&e)
	r.time(&e, now)
	r.messageID(&e)
	return e
}

func (r referenceFields) target(e *Event) {
	if !r.null("product_id") {
		e.ProductID = r.id("product_id")
	}
	if !r.null("search_phrase") {
		e.Phrase = r.text("search_phrase")
	}
	switch {
	case e.Type.HasPhrase() && strings.TrimSpace(e.Phrase) == "":
		r.found[ReasonSearchWithoutPhrase] = true
	case e.Type.HasPhrase() && e.ProductID != 0, !e.Type.HasPhrase() && e.ProductID != 0 && e.Phrase != "":
		r.found[ReasonPhraseAndProduct] = true
	case e.Type.HasPhrase() && len([]rune(e.Phrase)) > 255:
		r.found[ReasonPhraseTooLong] = true
	case e.Type.HasPhrase() && strings.Contains(e.Phrase, "\x00"):
		r.found[engine.ReasonNulCharacter] = true
	case !e.Type.HasPhrase() && e.ProductID == 0:
		r.found[ReasonProductEventNoTarget] = true
	}
}

func (r referenceFields) time(e *Event, now time.Time) {
	at, err := engine.ParseTimestamp([]byte(r.text("occurred_at"))) // which has a reference of its own
	e.OccurredAt = at
	if err != nil {
		r.found[engine.ReasonOf(err)] = true
	} else if at.Time().Year() < 1000 {
		r.found[engine.ReasonBadTimestamp] = true
	} else if at.Time().Sub(now) > 5*time.Minute {
		r.found[engine.ReasonFutureEvent] = true
	}
}

func (r referenceFields) messageID(e *Event) {
	if r.null("message_id") {
		of := e.Phrase
		if !e.Type.HasPhrase() {
			of = fmt.Sprint(e.ProductID)
		}
		joined := fmt.Sprintf("%d|%s|%s|%s", e.UserID, r.text("event_type"), of, r.text("occurred_at"))
		e.MessageID = fmt.Sprintf("%x", sha256.Sum256([]byte(joined)))
	} else {
		e.MessageID = r.text("message_id")
	}
	if n := len([]rune(e.MessageID)); n < 1 || n > 128 {
		r.found[ReasonBadMessageID] = true
	}
	if strings.Contains(e.MessageID, "\x00") {
		r.found[engine.ReasonNulCharacter] = true
	}
	sum := sha256.Sum256([]byte(e.MessageID))
	e.Digest = Digest(sum[:16])
}

// tb is what a fuzz test and a property test have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// fieldInText returns the field that an error's text begins with, or "".
func fieldInText(err error) string {
	name, _, _ := strings.Cut(err.Error(), ":")
	if fieldOf([]byte(name)) == fieldCount {
		return ""
	}
	return name
}

// checkAgainstReference compares the two readings of a body and reports whether
// it was accepted.
func checkAgainstReference(t tb, body []byte) bool {
	t.Helper()
	want, found := reference(body, testNow)
	got, err := ParseEvent(body, testNow)
	switch {
	case err == nil && len(found) > 0:
		t.Fatalf("accepted %q in spite of %v", body, found)
	case err == nil && got != want:
		t.Fatalf("%q\ngot  %+v\nwant %+v", body, got, want)
	case err != nil && !found[engine.ReasonOf(err)]:
		t.Fatalf("refused %q as %s (%v), found %v", body, engine.ReasonOf(err), err, found)
	case err != nil && engine.FieldOf(err) != fieldInText(err):
		t.Fatalf("%q: the field is %q of %v", body, engine.FieldOf(err), err)
	case err != nil && (engine.KindOf(err) != engine.Permanent || got != (Event{}) || len(err.Error()) > 300):
		t.Fatalf("refused %q with %+v, %s, %v", body, got, engine.KindOf(err), err)
	}
	return err == nil
}
