package outbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// newRow is a row to insert. The caller's body is not kept.
type newRow struct {
	id        int64 // of a row that stands in the table already; 0 otherwise
	userID    int32
	eventType string
	phrase    any    // string or nil
	productID any    // int32 or nil
	occurred  string // as [sqlTime]
	metadata  any    // string or nil
	created   string
	messageID string
	digest    []byte // of the message id
	body      string
	headers   any // string or nil

	fresh bool  // set by the insert
	fault error // set by the insert: the database rejected this row
}

// key names a row: a message id is unique per user, as in profiles.
type key struct {
	user int32
	id   string
}

func scanKey(s scanner) (k key, err error) {
	err = s.Scan(&k.user, &k.id)
	return k, err
}

func idsOf(rows []*newRow) []int64 {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.id
	}
	return ids
}

func (r *newRow) key() key { return key{r.userID, r.messageID} }

// rowOf checks what the columns cannot take, so that one statement's failure is
// the database's and hardly ever a row's.
func rowOf(e *profile.Entry, now engine.Millis) (newRow, error) {
	event := &e.Event
	if err := fits(event, e.Body); err != nil {
		return newRow{}, err
	}
	metadata, err := metadataOf(e.Body)
	if err != nil {
		return newRow{}, err
	}
	row := newRow{
		userID:    event.UserID,
		eventType: event.Type.String(),
		occurred:  timeText(event.OccurredAt),
		metadata:  metadata,
		created:   timeText(now),
		messageID: event.MessageID,
		digest:    digestOf(event.MessageID),
		body:      string(e.Body),
		headers:   headersOf(e.Trace),
	}
	if event.Type.HasPhrase() {
		row.phrase = event.Phrase
	} else {
		row.productID = event.ProductID
	}
	return row, nil
}

func fits(e *profile.Event, body []byte) error {
	switch {
	case e.UserID < 1 || e.Type.String() == "":
		return rejected("found the user %d and the event type %q, expected a valid event", e.UserID, e.Type)
	case e.OccurredAt < engine.Earliest:
		return rejected("occurred_at: found %s, expected the year 1000 or later", timeText(e.OccurredAt))
	case e.MessageID == "" || !fitsText(e.MessageID, profile.MaxMessageRunes):
		return rejected("message_id: found %d bytes, expected 1..%d characters of UTF-8 without U+0000", len(e.MessageID), profile.MaxMessageRunes)
	case !fitsText(e.Phrase, profile.MaxPhraseRunes):
		return rejected("search_phrase: found %d bytes, expected at most %d characters of UTF-8 without U+0000", len(e.Phrase), profile.MaxPhraseRunes)
	case len(body) > 2*profile.MaxBodyBytes || !utf8.Valid(body):
		return rejected("body: found %d bytes, expected at most %d of UTF-8", len(body), 2*profile.MaxBodyBytes)
	default:
		return nil
	}
}

// headersOf returns what the column headers keeps of a trace: a JSON object of strings,
// or NULL.
func headersOf(t *engine.Trace) any {
	if t == nil {
		return nil
	}
	text, _ := json.Marshal(t.Headers()) // strings can be marshalled
	return string(text)
}

// traceOf reads the column headers, which a shop may have written: it leaves out what is
// no header of a trace.
func traceOf(headers []byte) *engine.Trace {
	var all map[string]any
	if len(headers) == 0 || json.Unmarshal(headers, &all) != nil {
		return nil
	}
	return engine.TraceOf(func(name string) string {
		text, _ := all[name].(string)
		return text
	})
}

// digestOf is what keyfold_event_ids keeps of an id.
func digestOf(messageID string) []byte {
	digest := profile.DigestOf(messageID)
	return digest[:]
}

func fitsText(text string, limit int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= limit && !strings.Contains(text, "\x00")
}

func rejected(format string, args ...any) error {
	return engine.PermanentError(reasonRejected, fmt.Errorf(format, args...))
}

// metadataOf returns the metadata as it stands in a body, for the column that
// queries read; nil where there is none, or where it holds a number that MySQL's
// JSON cannot: nothing is lost, since the body is kept whole.
func metadataOf(body []byte) (any, error) {
	var metadata []byte
	_, err := engine.ReadObject(body, func(name []byte, value engine.Value) error {
		if string(name) == "metadata" {
			metadata = value.Text
		}
		return nil
	})
	if err != nil {
		return nil, rejected("body: %w", err)
	}
	if len(metadata) == 0 || metadata[0] != '{' {
		return nil, nil
	}
	var members map[string]any
	if json.Unmarshal(metadata, &members) != nil {
		return nil, nil //nolint:nilerr // a number beyond float64
	}
	return string(metadata), nil
}

// columns are what [newRow.values] fills.
const columns = "user_id, event_type, search_phrase, product_id, occurred_at, metadata, created_at, message_id, body, shard, headers, registered"

const places = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, TRUE)"

func (r *newRow) values(args []any) []any {
	return append(args, r.userID, r.eventType, r.phrase, r.productID, r.occurred, r.metadata, r.created, r.messageID, r.body, engine.SlotOf(r.userID), r.headers)
}

// size returns about how many bytes the row brings into a statement.
func (r *newRow) size() int {
	n := len(r.body) + len(r.messageID) + 128
	if text, ok := r.metadata.(string); ok {
		n += len(text)
	}
	if text, ok := r.phrase.(string); ok {
		n += len(text)
	}
	return n
}
