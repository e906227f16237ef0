package rule

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// Near explains which rules nearly match: those of the event's type that would match if
// one of their comparisons were the other way. It gives a line for each, by priority.
func (p *Program) Near(in *notify.Input) (lines []string) {
	entries := p.byType[in.Event.Type]
	for i := range entries {
		if s, matches := p.turning(entries[i].first, in); s != nil && !matches {
			lines = append(lines, s.missed(in))
		}
	}
	return lines
}

// MatchNear implements [notify.NearRules]: it is Match, and Near for at most so many of the
// rules before the one that matched. Where no rule is near it does not allocate.
func (p *Program) MatchNear(in *notify.Input, spent []uuid.UUID, most int) (match *notify.Action, lines []string) {
	entries := p.byType[in.Event.Type]
	for i := range entries {
		var s *step
		var matches bool
		if len(lines) < most {
			s, matches = p.turning(entries[i].first, in)
		} else {
			matches = p.matches(entries[i].first, in)
		}
		switch {
		case matches && !slices.Contains(spent, entries[i].action.Rule):
			return entries[i].action, lines
		case matches || s == nil:
			continue
		case lines == nil:
			lines = make([]string, 0, min(most, fewLines))
		}
		lines = append(lines, s.missed(in))
	}
	return nil, lines
}

// fewLines is how many rules nearly match at most where a record asks for them.
const fewLines = 3

// turning reports whether a rule matches, and returns the comparison that decides alone whether
// it does, the last one where there are several; nil where more than one would have to change.
func (p *Program) turning(at int32, in *notify.Input) (last *step, matches bool) {
	for at >= 0 {
		s := &p.steps[at]
		holds := s.holds(in)
		if p.matches(s.next(!holds), in) {
			last = s
		}
		at = s.next(holds)
	}
	return last, at == matched
}

func (s *step) next(holds bool) int32 {
	if holds {
		return s.then
	}
	return s.otherwise
}

// missed says what the rule asks for and what the event has instead.
func (s *step) missed(in *notify.Input) string {
	asks := &s.asks
	if s.holds(in) {
		asks = &s.asksNot
	}
	var room [256]byte // so that most texts are allocated once
	text := append(room[:0], asks.text...)
	if text = s.field.appendFound(text, in); string(text[len(asks.text):]) == null {
		return asks.ofNull
	}
	return string(text)
}

// null is what JSON has for a value that is not there.
const null = "null"

// asks is what a rule asks for by one comparison. What is found follows its text.
type asks struct {
	text   string
	ofNull string // where nothing is found
}

func asksFor(rule, wanted string) asks {
	text := rule + ": asks for " + wanted + ", found "
	return asks{text, text + null}
}

// prepare makes the texts of a rule's comparison, which missed completes.
func (s *step) prepare(rule string) {
	if s.field = fieldOf(s.of.Field); s.field == nil {
		return
	}
	wanted := s.of.String()
	s.asks, s.asksNot = asksFor(rule, wanted), asksFor(rule, "NOT("+wanted+")")
	if _, negated := operatorOf(s.of.Operator).positive(); negated {
		s.asks, s.asksNot = s.asksNot, s.asks
	}
}

// String returns the condition in one line.
func (c *Condition) String() string {
	if c.Op == always {
		return alwaysKey
	}
	var parts []string
	for i := range c.Rules {
		parts = append(parts, c.Rules[i].String())
	}
	for _, v := range c.Values {
		parts = append(parts, string(appendValue(nil, v)))
	}
	values := strings.Join(parts, ", ")
	if c.Op != "" {
		return c.Op + "(" + values + ")"
	}
	if o, _ := operatorOf(c.Operator).positive(); o.takes == list {
		values = "[" + values + "]"
	}
	return strings.TrimSpace(c.Field + " " + c.Operator + " " + values)
}

// appendValue appends a value as JSON has it, as far as rules read it.
func appendValue(b []byte, v notify.Value) []byte {
	switch v.Kind {
	case notify.Bool:
		return strconv.AppendBool(b, v.Bool)
	case notify.Number:
		return append(b, v.Text...)
	case notify.String:
		return strconv.AppendQuote(b, v.Text)
	case notify.Object:
		return append(b, "an object"...)
	case notify.Array:
		return appendList(b, v.Items)
	default:
		return append(b, null...)
	}
}

// listed is how many members of a list an explanation repeats.
const listed = 5

// appendList appends the texts of a list.
func appendList(b []byte, items []string) []byte {
	if len(items) == 0 {
		return append(b, "an array"...)
	}
	b = append(b, '[')
	for i, item := range items[:min(len(items), listed)] {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendQuote(b, start(item))
	}
	if len(items) > listed {
		b = append(b, ", ..."...)
	}
	return append(b, ']')
}

// shown is how many characters of an event's text an explanation repeats.
const shown = 60

func start(text string) string {
	runes := 0
	for at := range text {
		if runes++; runes > shown {
			return text[:at] + "..."
		}
	}
	return text
}

// appendFound appends the field's value of an event.
func (f *field) appendFound(b []byte, in *notify.Input) []byte {
	switch {
	case f.path != "":
		return appendValue(b, f.value(in))
	case f.instant != nil:
		return strconv.AppendQuote(b, clock(f.instant(in)))
	case f.text != nil:
		if f.text(in) == "" {
			return append(b, null...)
		}
		return strconv.AppendQuote(b, start(f.text(in)))
	case f.set != nil:
		return f.appendWords(b, f.set(in))
	default:
		n, there := f.number(in)
		if !there {
			return append(b, null...)
		}
		if unit := int64(math.Pow10(f.places)); n%unit == 0 { // most are whole, and cheaper to write
			return strconv.AppendInt(b, n/unit, 10)
		}
		return strconv.AppendFloat(b, float64(n)/math.Pow10(f.places), 'f', -1, 64)
	}
}

// appendWords appends the words of a set.
func (f *field) appendWords(b []byte, set uint) []byte {
	words := f.words
	if words == nil {
		words = []string{"false", "true"}
	}
	before := len(b)
	for i, word := range words {
		if set&(2<<i) == 0 {
			continue
		}
		if len(b) > before {
			b = append(b, ", "...)
		}
		b = append(b, word...)
	}
	if len(b) == before {
		return append(b, null...)
	}
	return b
}
