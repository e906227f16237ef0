package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// reader reads a document and gathers its faults. A method that finds a fault returns
// the zero value.
type reader struct {
	faults Faults
	rule   string         // the rule that is being read, as faults name it
	rules  []Rule         // for cases, which name them
	topics []notify.Topic // likewise
	id     uuid.UUID      // of the rule that is being read
}

// add adds a fault of a value. The rule and the path are those that the fault names, else
// the rule that is being read and the value's path.
func (r *reader) add(n *node, f Fault) {
	f.at, f.Rule, f.Path = n.at, cmp.Or(f.Rule, r.rule), cmp.Or(f.Path, n.path)
	r.faults = append(r.faults, f)
}

func (r *reader) fault(n *node, format string, args ...any) {
	r.add(n, Fault{Text: fmt.Sprintf(format, args...)})
}

func (r *reader) warn(n *node, format string, args ...any) {
	r.add(n, Fault{Text: fmt.Sprintf(format, args...), Warning: true})
}

// key is a key of an object.
type key struct {
	name     string
	required bool
	read     func(*node)
}

// object reads the members of an object by their keys. An optional key that is null is
// as one that is absent.
func (r *reader) object(n *node, keys ...key) {
	if !r.is(n, '{') {
		return
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	for _, m := range n.members {
		if !slices.Contains(names, m.name) {
			r.fault(m.value, "unknown key %q: %s", m.name, hint(m.name, names))
		}
	}
	for _, k := range keys {
		switch value := n.get(k.name); {
		case value == nil && k.required:
			r.add(n, Fault{Path: below(n.path, k.name), Text: fmt.Sprintf("the key %q is missing: add it", k.name)})
		case value != nil && (k.required || value.kind != 'n'):
			k.read(value)
		}
	}
}

// is reports whether a value is of a kind, and names the fault if it is not.
func (r *reader) is(n *node, kind byte) bool {
	if n.kind == 't' && kind == 'f' || byte(n.kind) == kind {
		return true
	}
	r.fault(n, "found %s, expected %s", n.withArticle(), map[byte]string{
		'f': "true or false", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
	}[kind])
	return false
}

// string reads a text of 1 to most characters.
func (r *reader) string(n *node, most int) string {
	if !r.is(n, '"') {
		return ""
	}
	if size := len([]rune(n.text)); size < 1 || size > most {
		r.fault(n, "found %d characters, expected 1 to %d", size, most)
		return ""
	}
	return n.text
}

func (r *reader) bool(n *node) bool { return r.is(n, 'f') && n.kind == 't' }

func (r *reader) int(n *node, least, most int) int {
	if !r.is(n, '0') {
		return 0
	}
	i, err := strconv.Atoi(n.text)
	if err != nil || i < least || i > most || strconv.Itoa(i) != n.text { // -0
		r.fault(n, "found %s, expected an integer from %d to %d", n.text, least, most)
		return 0
	}
	return i
}

func (r *reader) float(n *node, least, most float64) float64 {
	if !r.is(n, '0') {
		return 0
	}
	x, err := strconv.ParseFloat(n.text, 64)
	if err != nil || x < least || x > most {
		r.fault(n, "found %s, expected a number from %g to %g", n.text, least, most)
		return 0
	}
	return x
}

func (r *reader) duration(n *node, least, most time.Duration) engine.Millis {
	if !r.is(n, '"') {
		return 0
	}
	d, err := time.ParseDuration(n.text)
	if err != nil || d < least || d > most || d%time.Millisecond != 0 {
		r.fault(n, "found %q, expected a duration from %s to %s in whole milliseconds, such as \"24h\" or \"10m\"",
			n.text, short(least), short(most))
		return 0
	}
	return engine.Millis(d.Milliseconds())
}

// short writes a duration without its zeros: 24h, not 24h0m0s.
func short(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// instant reads a time in RFC 3339.
func (r *reader) instant(n *node) engine.Millis {
	if !r.is(n, '"') {
		return 0
	}
	at, err := engine.ParseTimestamp([]byte(n.text))
	if err != nil {
		r.fault(n, "%v", err)
	}
	return at
}

// list reads an array of at least so many items.
func (r *reader) list(n *node, least int, item func(*node)) {
	if !r.is(n, '[') {
		return
	}
	if len(n.items) < least {
		r.fault(n, "the list is empty: name at least one, or leave the key out")
	}
	for _, i := range n.items {
		item(i)
	}
}

// word reads one of the words that a type lists.
func word[T interface {
	~uint8
	String() string
}](r *reader, n *node, all ...T) T {
	if !r.is(n, '"') {
		return 0
	}
	names := make([]string, len(all))
	for i, t := range all {
		if names[i] = t.String(); names[i] == n.text {
			return t
		}
	}
	r.fault(n, "unknown value %q: %s", n.text, hint(n.text, names))
	return 0
}

// words reads a list of such words, each of which may stand once.
func words[T interface {
	~uint8
	String() string
}](r *reader, n *node, least int, all ...T) (found []T) {
	r.list(n, least, func(item *node) {
		t := word(r, item, all...)
		if t != 0 && slices.Contains(found, t) {
			r.fault(item, "%s is there twice: remove one", t)
		} else if t != 0 {
			found = append(found, t)
		}
	})
	return found
}

// either reads one of two words and reports whether it is the second.
func (r *reader) either(n *node, first, second string) bool {
	if r.is(n, '"') && n.text != first && n.text != second {
		r.fault(n, "unknown value %q: %s", n.text, hint(n.text, []string{first, second}))
	}
	return n.kind == '"' && n.text == second
}
