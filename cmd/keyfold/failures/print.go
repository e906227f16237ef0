package failures

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/source/rabbit/deadletter"
)

// foreign is the reason shown for what is no letter of keyfold's.
const foreign = "not_a_letter"

func reasonOf(l *deadletter.Letter) string {
	switch {
	case l.Reason != "":
		return l.Reason
	case l.Original == nil:
		return foreign
	default:
		return "unknown"
	}
}

// What a table shows of an id and of an error; the rest is seldom needed.
const (
	idShown    = 12
	errorShown = 60
)

func printRow(w *cli.Text, l *deadletter.Letter, now time.Time) {
	id := []rune(l.ID)
	age := "-"
	if !l.LastFailure.IsZero() {
		age = cli.Age(now.Sub(l.LastFailure))
	}
	w.Line("%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s", cli.Printable(string(id[:min(len(id), idShown)])), userOf(l),
		cli.Printable(cmp.Or(l.Kind, "-")), cli.Printable(reasonOf(l)), l.Retries, at(l.LastFailure), age, cli.Shorten(cli.Printable(errorOf(l)), errorShown))
}

// errorOf is the last error of a letter, or what is wrong with the letter itself.
func errorOf(l *deadletter.Letter) string {
	switch {
	case len(l.Errors) > 0:
		return l.Errors[len(l.Errors)-1]
	case l.Fault != nil:
		return l.Fault.Error()
	}
	return "-"
}

// typeOf is the type that a letter is counted and picked by.
func typeOf(l *deadletter.Letter) string { return cmp.Or(l.Kind, "unknown") }

func userOf(l *deadletter.Letter) string { return cli.Printable(cmp.Or(l.User, "-")) }

func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return cli.At(t)
}

// letterJSON is a letter's line in -o json.
type letterJSON struct {
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

func jsonOf(l *deadletter.Letter) letterJSON {
	j := letterJSON{
		ID: l.ID, UserID: userIDOf(l), EventType: l.Kind, Reason: reasonOf(l), Retries: l.Retries,
		Errors: append([]string{}, l.Errors...), Host: l.Host,
	}
	if !l.FirstFailure.IsZero() {
		j.FirstFailure = at(l.FirstFailure)
	}
	if !l.LastFailure.IsZero() {
		j.LastFailure = at(l.LastFailure)
	}
	if l.Fault != nil {
		j.Fault = l.Fault.Error()
	}
	return j
}

// userIDOf returns the user's id for JSON, nil where it could not be read.
func userIDOf(l *deadletter.Letter) any {
	switch {
	case l.User == "":
		return nil
	case l.NumericUser:
		return json.Number(l.User)
	}
	return l.User
}

// wholeJSON is a letter with all it carries.
type wholeJSON struct {
	letterJSON
	Headers  map[string]string `json:"headers"`
	Original json.RawMessage   `json:"original_message,omitempty"`
	// Base64 is the original, or in what is no letter the whole body, where it
	// is not JSON in UTF-8.
	Base64 []byte `json:"base64,omitempty"`
}

func printLetters(a *app.App, all []*deadletter.Letter) error {
	for _, l := range all {
		if err := printLetter(a, l); err != nil {
			return err
		}
	}
	return nil
}

func printLetter(a *app.App, l *deadletter.Letter) error {
	body := l.Original
	if body == nil {
		body = l.Body
	}
	headers := map[string]string{}
	for name, v := range l.Headers {
		headers[name] = fmt.Sprint(v)
	}
	whole := wholeJSON{letterJSON: jsonOf(l), Headers: headers, Original: body}
	if !json.Valid(body) || !utf8.Valid(body) {
		whole.Original, whole.Base64 = nil, body
	}
	return a.Emit(whole, func(w *cli.Text) {
		printFields(w, l)
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			w.Line("header         %s: %s", cli.Printable(name), cli.Printable(headers[name]))
		}
		if l.Original == nil {
			w.Line("body as it is")
		} else {
			w.Line("original message")
		}
		w.Line("%s", pretty(body))
	})
}

func printFields(w *cli.Text, l *deadletter.Letter) {
	w.Line("id             %s", cli.Printable(l.ID))
	w.Line("user           %s", userOf(l))
	w.Line("type           %s", cli.Printable(cmp.Or(l.Kind, "-")))
	w.Line("reason         %s", cli.Printable(reasonOf(l)))
	w.Line("retries        %d", l.Retries)
	w.Line("first failure  %s", at(l.FirstFailure))
	w.Line("last failure   %s", at(l.LastFailure))
	w.Line("worker         %s", cli.Printable(cmp.Or(l.Host, "-")))
	if l.FirstSeen > 0 {
		w.Line("first seen     %s", at(firstSeen(l)))
		w.Line("not folded by  %s", at(l.FirstSeen.Time()))
	}
	if l.Fault != nil {
		w.Line("letter's fault %s", cli.Printable(l.Fault.Error()))
	}
	for i, text := range l.Errors {
		w.Line("error %-8d %s", i+1, cli.Printable(text))
	}
}

// firstSeen is the first time that a letter tells of its event. The bound is not: each look
// for the event's id renews it.
func firstSeen(l *deadletter.Letter) time.Time {
	if bound := l.FirstSeen.Time(); l.FirstFailure.IsZero() || bound.Before(l.FirstFailure) {
		return bound
	}
	return l.FirstFailure
}

// pretty indents JSON; what is none is shown as text where it can be, and as
// base64 otherwise.
func pretty(body []byte) string {
	var indented bytes.Buffer
	if json.Indent(&indented, body, "  ", "  ") == nil {
		var lines []string
		for line := range strings.Lines(indented.String()) {
			lines = append(lines, cli.Printable(strings.TrimRight(line, "\r\n")))
		}
		return "  " + strings.Join(lines, "\n")
	}
	if text := string(body); text == strings.ToValidUTF8(text, "") && cli.Printable(text) == text {
		return "  " + text
	}
	return "  base64: " + base64.StdEncoding.EncodeToString(body)
}

// letterCounts is what stats tells.
type letterCounts struct {
	Letters int            `json:"letters"`
	Reasons map[string]int `json:"by_reason"`
	Types   map[string]int `json:"by_type"`
	Oldest  *time.Time     `json:"oldest,omitempty"` // by last failure
	Newest  *time.Time     `json:"newest,omitempty"`
}

func newLetterCounts() *letterCounts {
	return &letterCounts{Reasons: map[string]int{}, Types: map[string]int{}}
}

// maxKinds bounds the names counted: foreign letters may make up any number.
const maxKinds = 1000

func (c *letterCounts) add(l *deadletter.Letter) {
	c.Letters++
	count(c.Reasons, reasonOf(l))
	count(c.Types, typeOf(l))
	if t := l.LastFailure.UTC(); !l.LastFailure.IsZero() {
		if c.Oldest == nil || t.Before(*c.Oldest) {
			c.Oldest = &t
		}
		if c.Newest == nil || t.After(*c.Newest) {
			c.Newest = &t
		}
	}
}

func count(names map[string]int, name string) {
	if _, known := names[name]; !known && len(names) >= maxKinds {
		name = "others"
	}
	names[name]++
}

func (c *letterCounts) print(w *cli.Text) {
	w.Line("%s", cli.Count(int64(c.Letters), "dead letter"))
	if c.Letters == 0 {
		return
	}
	printCounts(w, "by reason", c.Reasons)
	printCounts(w, "by type", c.Types)
	if c.Oldest != nil {
		w.Line("oldest failure  %s", at(*c.Oldest))
		w.Line("newest failure  %s", at(*c.Newest))
	}
}

func printCounts(w *cli.Text, title string, names map[string]int) {
	w.Line("%s", title)
	order := slices.SortedFunc(maps.Keys(names), func(x, y string) int {
		return cmp.Or(names[y]-names[x], strings.Compare(x, y))
	})
	for _, name := range order {
		w.Line("  %-32s %10s", cli.Printable(name), cli.Number(int64(names[name])))
	}
}
