package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"keyfold/engine"
)

// found is a set of "field reason".
type found map[string]bool

func (f found) add(name, reason string) { f[name+" "+reason] = true }

// textReasons are those of texts that are not one strict JSON object. Which of them
// comes first in a broken text is the reader's business.
var textReasons = []string{
	engine.ReasonMalformedJSON, engine.ReasonTrailingData, engine.ReasonTooDeep, engine.ReasonLoneSurrogate, engine.ReasonDuplicateKey,
}

// reference reads a body with encoding/json, slowly. It returns the reasons of a
// text that is no good, of which Parse names one, or the faults of the fields, all
// of which Parse names, or the notification.
func reference(body []byte, now engine.Millis) (n *Notification, text []string, faults found) {
	switch {
	case len(body) > MaxBodyBytes:
		return nil, []string{engine.ReasonBodyTooLarge}, nil
	case !utf8.Valid(body):
		return nil, []string{engine.ReasonInvalidUTF8}, nil
	case !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' || loneSurrogate(body):
		return nil, textReasons, nil
	}
	w := walk(body)
	if w.doubled || w.deepest > engine.MaxDepth {
		return nil, textReasons, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		panic(err)
	}
	r := referenceReader{raw: raw, now: now, found: found{}}
	n = r.notification()
	if len(r.found) > 0 {
		return nil, nil, r.found
	}
	return n, nil, nil
}

var escapePattern = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

// loneSurrogate goes through the escapes of a valid text from the left.
func loneSurrogate(body []byte) bool {
	highEnd := -1
	for _, m := range escapePattern.FindAllIndex(body, -1) {
		var code uint64
		if m[1]-m[0] == 6 {
			code, _ = strconv.ParseUint(string(body[m[0]+2:m[1]]), 16, 32)
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

// walked is what the tokens of a JSON text show.
type walked struct {
	doubled, nul, outOfRange bool
	deepest                  int
}

func walk(text []byte) (w walked) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	w.value(decoder, 0)
	return w
}

func (w *walked) value(decoder *json.Decoder, depth int) {
	token, _ := decoder.Token()
	switch token := token.(type) {
	case string:
		w.nul = w.nul || strings.Contains(token, "\x00")
	case json.Number:
		w.outOfRange = w.outOfRange || !storableNumber(token.String())
	case json.Delim:
		depth++
		w.deepest = max(w.deepest, depth)
		seen := map[string]bool{}
		for decoder.More() {
			if token == '{' {
				name, _ := decoder.Token()
				w.doubled = w.doubled || seen[name.(string)]
				w.nul = w.nul || strings.Contains(name.(string), "\x00")
				seen[name.(string)] = true
			}
			w.value(decoder, depth)
		}
		_, _ = decoder.Token()
	}
}

func storableNumber(literal string) bool {
	_, power, has := strings.Cut(strings.ToLower(literal), "e")
	if !has {
		return len(literal) <= 1000
	}
	exponent, ok := new(big.Int).SetString(power, 10)
	return len(literal) <= 1000 && ok && exponent.CmpAbs(big.NewInt(10_000)) <= 0
}

// referenceReader checks the members one by one.
type referenceReader struct {
	raw   map[string]json.RawMessage
	now   engine.Millis
	found found
}

func (r *referenceReader) notification() *Notification {
	for name, raw := range r.raw {
		label, w := name, walk(raw)
		if !slices.Contains(fieldNames[:], name) {
			label = ""
			if i := slices.IndexFunc(fieldNames[:], func(n string) bool { return strings.EqualFold(n, name) }); i >= 0 {
				r.found.add(fieldNames[i], engine.ReasonWrongKeyCase)
				continue
			}
			w.nul = w.nul || strings.Contains(name, "\x00")
		}
		if w.nul {
			r.found.add(label, engine.ReasonNulCharacter)
		}
		if w.outOfRange {
			r.found.add(label, FaultNumberOutOfRange)
		}
	}
	n := &Notification{
		UserID: r.text("user_id", true, 128), Title: r.text("title", true, 120), Message: r.text("message", false, 1000),
		Source: r.text("source", true, 64), DedupeKey: r.text("dedupe_key", false, 256),
	}
	r.words(n)
	if id, ok := r.text("event_id", false, 1<<20), r.null("event_id"); !ok && r.kind("event_id") == String {
		var err error
		if n.ID, err = uuid.Parse(id); err != nil || len(id) != 36 || n.ID == uuid.Nil {
			r.found.add("event_id", FaultBadEventID)
		}
	}
	r.times(n)
	r.metadata(n)
	return n
}

func (r *referenceReader) kind(name string) Kind { return kindOf(r.raw[name]) }

func (r *referenceReader) null(name string) bool { return r.kind(name) <= Null }

// of reports whether a member is of a kind.
func (r *referenceReader) of(name string, required bool, kind Kind) bool {
	switch {
	case r.kind(name) == kind:
		return true
	case required && r.kind(name) == Absent:
		r.found.add(name, engine.ReasonMissingField)
	case required || !r.null(name):
		r.found.add(name, engine.ReasonWrongType)
	}
	return false
}

func (r *referenceReader) text(name string, required bool, limit int) (s string) {
	if !r.of(name, required, String) {
		return ""
	}
	if err := json.Unmarshal(r.raw[name], &s); err != nil {
		panic(err)
	}
	if len([]rune(s)) > limit {
		r.found.add(name, FaultTooLong)
	}
	if required && (s == "" || name != "user_id" && strings.TrimSpace(s) == "") {
		r.found.add(name, FaultEmpty)
	}
	return s
}

func (r *referenceReader) words(n *Notification) {
	if name := r.text2("event_type", true); name != nil {
		if n.Type = EventType(slices.Index(typeNames[:], *name)); !slices.Contains(typeNames[1:], *name) {
			r.found.add("event_type", engine.ReasonUnknownEventType)
		}
	}
	if name := r.text2("priority_hint", false); name != nil {
		if n.Hint = Hint(slices.Index(hintNames[:], *name)); !slices.Contains(hintNames[1:], *name) {
			r.found.add("priority_hint", FaultUnknownHint)
		}
	}
	if !r.of("channel", true, Array) {
		return
	}
	var elements []any
	if err := json.Unmarshal(r.raw["channel"], &elements); err != nil { // a number beyond a float64
		elements = []any{0.0}
	}
	if len(elements) == 0 {
		r.found.add("channel", FaultEmpty)
	}
	bad := 0
	for _, element := range elements {
		name, is := element.(string)
		c := Channel(max(0, slices.Index(channelNames[:], name)))
		switch {
		case bad == maxChannelFaults:
			return
		case !is:
			r.found.add("channel", engine.ReasonWrongType)
			return
		case c == 0 || name == "":
			r.found.add("channel", FaultUnknownChannel)
			bad++
		case slices.Contains(n.Channels, c):
			r.found.add("channel", FaultDuplicateChannel)
			bad++
		default:
			n.Channels = append(n.Channels, c)
		}
	}
}

// text2 returns a text of any length, nil for none.
func (r *referenceReader) text2(name string, required bool) *string {
	if !r.of(name, required, String) {
		return nil
	}
	var s string
	_ = json.Unmarshal(r.raw[name], &s)
	return &s
}

var timePattern = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?$`)

func (r *referenceReader) times(n *Notification) {
	if s := r.text2("timestamp", true); s != nil {
		n.Timestamp = r.time("timestamp", *s)
	}
	if s := r.text2("expires_at", false); s != nil {
		n.ExpiresAt = r.time("expires_at", *s)
		if n.Timestamp != 0 && n.ExpiresAt != 0 && n.ExpiresAt <= n.Timestamp {
			r.found.add("expires_at", FaultExpiresTooEarly)
		}
	}
	if n.Timestamp > r.now+300_000 {
		r.found.add("timestamp", engine.ReasonFutureEvent)
	}
}

// time returns 0 for a bad one. No test has an event of 1970-01-01T00:00:00Z.
func (r *referenceReader) time(name, text string) engine.Millis {
	m := timePattern.FindStringSubmatch(text)
	if m == nil {
		r.found.add(name, engine.ReasonBadTimestamp)
		return 0
	}
	local, err := time.Parse("2006-01-02T15:04:05", m[1])
	offset := strings.ReplaceAll(m[3], ":", "")
	hour, minute := 0, 0
	if len(offset) == 5 {
		hour, _ = strconv.Atoi(offset[1:3])
		minute, _ = strconv.Atoi(offset[3:])
	}
	switch {
	case err != nil || hour > 23 || minute > 59:
		r.found.add(name, engine.ReasonBadTimestamp)
		return 0
	case offset == "":
		r.found.add(name, engine.ReasonTimestampNoOffset)
		return 0
	}
	millis, _ := strconv.Atoi((m[2] + "000")[:3])
	east := hour*60 + minute
	if offset[0] == '-' {
		east = -east
	}
	at := engine.Millis(local.Unix()-int64(east)*60)*1000 + engine.Millis(millis)
	if at.Time().Year() < 1000 {
		r.found.add(name, engine.ReasonBadTimestamp)
		return 0
	}
	return at
}

func (r *referenceReader) metadata(n *Notification) {
	if !r.of("metadata", false, Object) {
		return
	}
	raw := r.raw["metadata"]
	if len(raw) > 4096 {
		r.found.add("metadata", FaultMetadataTooLarge)
		return
	}
	if walk(raw).deepest > 8 {
		r.found.add("metadata", FaultMetadataTooDeep)
		return
	}
	paths := map[string]json.RawMessage{}
	var flat func(prefix string, level int, object json.RawMessage)
	flat = func(prefix string, level int, object json.RawMessage) {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(object, &members)
		for name, value := range members {
			if _, there := paths[prefix+name]; there {
				r.found.add("metadata", FaultAmbiguousPath)
			}
			paths[prefix+name] = value
			if kindOf(value) == Object && level < 4 {
				flat(prefix+name+".", level+1, value)
			}
		}
	}
	flat("", 1, raw)
	for path, value := range paths {
		v := Value{Kind: kindOf(value)}
		switch v.Kind {
		case Bool:
			v.Bool = string(value) == "true"
		case Number:
			v.Text = string(value)
			v.Number, _ = ParseDecimal(v.Text)
		case String:
			_ = json.Unmarshal(value, &v.Text)
		case Array:
			var items []any
			_ = json.Unmarshal(value, &items)
			for _, item := range items {
				if text, ok := item.(string); ok {
					v.Items = append(v.Items, text)
				}
			}
		}
		n.Metadata = append(n.Metadata, Member{path, v})
	}
}

// tb is what tests and fuzz tests have in common.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkParse compares the two readings of a body and reports whether it was
// accepted.
func checkParse(t tb, body []byte) bool {
	t.Helper()
	want, text, faults := reference(body, testNow)
	got, err := Parse(body, testNow)
	if err == nil {
		if want == nil {
			t.Errorf("accepted %.300q in spite of %v %v", body, text, faults)
			return true
		}
		checkSame(t, body, got, want)
		return true
	}
	named := FaultsOf(err)
	switch {
	case want != nil:
		t.Errorf("refused %.300q: %v", body, err)
	case engine.KindOf(err) != engine.Permanent || got != nil || len(named) == 0 || len(err.Error()) > 8000:
		t.Errorf("%.300q: %s error with %v of %d bytes", body, engine.KindOf(err), got, len(err.Error()))
	case engine.ReasonOf(err) != named[0].Reason || engine.FieldOf(err) != named[0].Field:
		t.Errorf("%.300q: %s of %q, but the first fault is %+v", body, engine.ReasonOf(err), engine.FieldOf(err), named[0])
	case text != nil:
		if len(named) != 1 || named[0].Field != "" || !slices.Contains(text, named[0].Reason) {
			t.Errorf("%.300q: found %v, expected one of %v", body, err, text)
		}
	default:
		have := found{}
		for _, f := range named {
			have.add(f.Field, f.Reason)
			if f.Text == "" || f.Reason == "" || f.Field != "" && !strings.Contains(f.Text, f.Field) {
				t.Errorf("%.300q: the fault %+v does not say what is wrong", body, f)
			}
		}
		if !reflect.DeepEqual(have, faults) {
			t.Errorf("%.300q\ngot  %v\nwant %v", body, have, faults)
		}
	}
	return false
}

func checkSame(t tb, body []byte, got, want *Notification) {
	t.Helper()
	byPath := func(a, b Member) int { return strings.Compare(a.Path, b.Path) }
	slices.SortFunc(got.Metadata, byPath)
	slices.SortFunc(want.Metadata, byPath)
	id, text := got.ID, got.Body
	if want.ID != uuid.Nil && id != want.ID {
		t.Errorf("%.300q: id %s, expected %s", body, id, want.ID)
	}
	again, err := Parse(text, testNow)
	if err != nil || again.ID != id || !bytes.Equal(again.Body, text) {
		t.Errorf("%.300q: its body %.300q is read as %v, %v", body, text, again, err)
	}
	want.ID, want.Body = id, text
	if len(got.Metadata) == 0 {
		got.Metadata = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%.300q\ngot  %s\nwant %s", body, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
}
