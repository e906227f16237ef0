package rule

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"keyfold/engine/notify"
)

// Near explains which rules nearly match: those of the event's type that would match if
// one of their comparisons were the other way. It gives a line for each, by priority.
func (p *Program) Near(in *notify.Input) []string {
	return p.NearBefore(in, nil, math.MaxInt)
}

// NearBefore is Near for at most so many of the rules before the one that matched; nil: of
// all. It implements [notify.NearRules]: where no rule is near it does not allocate.
func (p *Program) NearBefore(in *notify.Input, match *notify.Action, most int) (lines []string) {
	entries := p.byType[in.Event.Type]
	for i := range entries {
		if entries[i].action == match || len(lines) >= most {
			break
		}
		if s := p.turning(entries[i].first, in); s != nil {
			lines = append(lines, entries[i].action.Name+s.missed(in))
		}
	}
	return lines
}

// turning returns the comparison of a rule that decides alone that the rule does not match,
// the last one where there are several; nil where the rule matches, or more than one would
// have to change.
func (p *Program) turning(at int32, in *notify.Input) (last *step) {
	for at >= 0 {
		s := &p.steps[at]
		holds := s.holds(in)
		if p.matches(s.next(!holds), in) {
			last = s
		}
		at = s.next(holds)
	}
	if at == matched {
		return nil
	}
	return last
}

func (s *step) next(holds bool) int32 {
	if holds {
		return s.then
	}
	return s.otherwise
}

// missed says what the rule asks for and what the event has instead.
func (s *step) missed(in *notify.Input) string {
	asks := s.asks
	if s.holds(in) {
		asks = s.asksNot
	}
	return asks + s.field.found(in)
}

// prepare makes the texts of a comparison, which missed completes.
func (s *step) prepare() {
	if s.field = fieldOf(s.of.Field); s.field == nil {
		return
	}
	wanted := s.of.String()
	s.asks, s.asksNot = ": asks for "+wanted+", found ", ": asks for NOT("+wanted+"), found "
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
		parts = append(parts, text(v))
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

// text returns a value as JSON has it, as far as rules read it.
func text(v notify.Value) string {
	switch v.Kind {
	case notify.Bool:
		return strconv.FormatBool(v.Bool)
	case notify.Number:
		return v.Text
	case notify.String:
		return strconv.Quote(v.Text)
	case notify.Object:
		return "an object"
	case notify.Array:
		return listOf(v.Items)
	default:
		return "null"
	}
}

// listed is how many members of a list an explanation repeats.
const listed = 5

// listOf returns the texts of a list.
func listOf(items []string) string {
	if len(items) == 0 {
		return "an array"
	}
	var parts []string
	for _, item := range items[:min(len(items), listed)] {
		parts = append(parts, strconv.Quote(start(item)))
	}
	if len(items) > listed {
		parts = append(parts, "...")
	}
	return "[" + strings.Join(parts, ", ") + "]"
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

// found returns the field's value of an event.
func (f *field) found(in *notify.Input) string {
	switch {
	case f.path != "":
		return text(f.value(in))
	case f.instant != nil:
		return strconv.Quote(clock(f.instant(in)))
	case f.text != nil && f.text(in) == "":
		return "null"
	case f.text != nil:
		return strconv.Quote(start(f.text(in)))
	case f.set == nil:
		n, there := f.number(in)
		if !there {
			return "null"
		}
		return strconv.FormatFloat(float64(n)/math.Pow10(f.places), 'f', -1, 64)
	}
	words := f.words
	if words == nil {
		words = []string{"false", "true"}
	}
	var found []string
	for i, word := range words {
		if f.set(in)&(2<<i) != 0 {
			found = append(found, word)
		}
	}
	return cmp.Or(strings.Join(found, ", "), "null")
}
