package failed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"keyfold/engine"
	"keyfold/internal/cli"
)

// The places of failures of events that are folded.
const (
	Broker = "broker"
	SQL    = "sql"
)

// Letter is a failure: a dead letter, or a row that was set aside.
type Letter struct {
	Where       string // its place
	ID          string
	User        string // "" where it could not be read
	NumericUser bool   // ids of users are numbers
	Type        string // of the event, as it stands there; "" where it could not be read
	Reason      string
	Retries     int
	Errors      []string // the oldest first
	// FirstFailure and LastFailure are zero where they are not known.
	FirstFailure, LastFailure time.Time
	Host                      string        // of the worker that gave up
	FirstSeen                 engine.Millis // 0 where it is not known
	Fault                     string        // what is wrong with the letter itself
	Headers                   map[string]string
	// Body is the event's; where Foreign says that there is none, the letter's own. Such a letter
	// cannot be retried.
	Body    []byte
	Foreign bool
}

// What a table shows of an id and of an error; the rest is seldom needed.
const (
	idShown    = 12
	errorShown = 60
)

// Head names the columns of [Letter.Row].
var Head = []string{"ID", "USER", "TYPE", "REASON", "RETRIES", "FAILED AT", "AGE", "ERROR"}

// Row is a line of a table.
func (l *Letter) Row(now time.Time) []string {
	id := []rune(l.ID)
	age := "-"
	if !l.LastFailure.IsZero() {
		age = cli.Age(now.Sub(l.LastFailure))
	}
	return []string{
		cli.Printable(string(id[:min(len(id), idShown)])), l.user(), cli.Printable(cmp.Or(l.Type, "-")), cli.Printable(l.Reason),
		strconv.Itoa(l.Retries), at(l.LastFailure), age, cli.Shorten(cli.Printable(l.LastError()), errorShown),
	}
}

// LastError is the last error, or what is wrong with the letter itself.
func (l *Letter) LastError() string {
	switch {
	case len(l.Errors) > 0:
		return l.Errors[len(l.Errors)-1]
	case l.Fault != "":
		return l.Fault
	}
	return "-"
}

// Kind is the type that a letter is counted and picked by.
func (l *Letter) Kind() string { return cmp.Or(l.Type, "unknown") }

func (l *Letter) user() string { return cli.Printable(cmp.Or(l.User, "-")) }

func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return cli.At(t)
}

// Field is a named value of a letter.
type Field struct{ Name, Value string }

// Fields are all that is known of a letter but for its headers and its body. Values are
// printable.
func (l *Letter) Fields() []Field {
	all := []Field{
		{"id", cli.Printable(l.ID)},
		{"user", l.user()},
		{"type", cli.Printable(cmp.Or(l.Type, "-"))},
		{"reason", cli.Printable(l.Reason)},
		{"retries", strconv.Itoa(l.Retries)},
		{"first failure", at(l.FirstFailure)},
		{"last failure", at(l.LastFailure)},
		{"worker", cli.Printable(cmp.Or(l.Host, "-"))},
	}
	if l.FirstSeen > 0 {
		all = append(all, Field{"first seen", at(l.firstSeen())}, Field{"not folded by", at(l.FirstSeen.Time())})
	}
	if l.Fault != "" {
		all = append(all, Field{"letter's fault", cli.Printable(l.Fault)})
	}
	for i, text := range l.Errors {
		all = append(all, Field{fmt.Sprintf("error %d", i+1), cli.Printable(text)})
	}
	return all
}

// firstSeen is the first time that a letter tells of its event. The bound is not: each look
// for the event's id renews it.
func (l *Letter) firstSeen() time.Time {
	if bound := l.FirstSeen.Time(); l.FirstFailure.IsZero() || bound.Before(l.FirstFailure) {
		return bound
	}
	return l.FirstFailure
}

// HeaderFields are the headers by name.
func (l *Letter) HeaderFields() []Field {
	var all []Field
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		all = append(all, Field{cli.Printable(name), cli.Printable(l.Headers[name])})
	}
	return all
}

// Print writes a letter with all it carries.
func (l *Letter) Print(w *cli.Text) {
	for _, f := range l.Fields() {
		w.Line("%-14s %s", f.Name, f.Value)
	}
	for _, h := range l.HeaderFields() {
		w.Line("header         %s: %s", h.Name, h.Value)
	}
	w.Line("%s", l.BodyTitle())
	w.Line("%s", l.Pretty())
}

// BodyTitle says whose body there is.
func (l *Letter) BodyTitle() string {
	if l.Foreign {
		return "body as it is"
	}
	return "original message"
}

// JSON is a letter's line in JSON.
type JSON struct {
	ID           string   `json:"id"`
	UserID       any      `json:"user_id,omitempty"` // a number where ids are numbers
	EventType    string   `json:"event_type,omitempty"`
	Reason       string   `json:"reason"`
	Retries      int      `json:"retries"`
	FirstFailure string   `json:"first_failure_at,omitempty"`
	LastFailure  string   `json:"last_failure_at,omitempty"`
	Errors       []string `json:"errors"`
	Host         string   `json:"worker_host,omitempty"`
	Fault        string   `json:"letter_fault,omitempty"`
}

// JSON returns a letter without headers and body.
func (l *Letter) JSON() JSON {
	j := JSON{
		ID: l.ID, UserID: l.userID(), EventType: l.Type, Reason: l.Reason, Retries: l.Retries,
		Errors: append([]string{}, l.Errors...), Host: l.Host, Fault: l.Fault,
	}
	if !l.FirstFailure.IsZero() {
		j.FirstFailure = at(l.FirstFailure)
	}
	if !l.LastFailure.IsZero() {
		j.LastFailure = at(l.LastFailure)
	}
	return j
}

// userID returns the user's id for JSON, nil where it could not be read.
func (l *Letter) userID() any {
	switch {
	case l.User == "":
		return nil
	case l.NumericUser:
		return json.Number(l.User)
	}
	return l.User
}

// WholeJSON is a letter with all it carries.
type WholeJSON struct {
	JSON
	Headers  map[string]string `json:"headers"`
	Original json.RawMessage   `json:"original_message,omitempty"`
	// Base64 is the original, or in what is no letter the whole body, where it
	// is not JSON in UTF-8.
	Base64 []byte `json:"base64,omitempty"`
}

// Whole returns a letter with headers and body.
func (l *Letter) Whole() WholeJSON {
	whole := WholeJSON{JSON: l.JSON(), Headers: l.Headers, Original: l.Body}
	if !json.Valid(l.Body) || !utf8.Valid(l.Body) {
		whole.Original, whole.Base64 = nil, l.Body
	}
	return whole
}
