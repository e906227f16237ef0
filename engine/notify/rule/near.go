package rule

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"keyfold/engine/notify"
)

// Near explains which rules nearly match: those of the event's type that would match if
// one of their comparisons were the other way. It gives a line for each, by priority.
// It is for explanations, and slower than Match.
func (p *Program) Near(in *notify.Input) (lines []string) {
	entries := p.byType[in.Event.Type]
	for i := range entries {
		if c := p.turning(&entries[i], in); c != nil {
			lines = append(lines, entries[i].action.Name+": "+c.missed(in))
		}
	}
	return lines
}

// turning returns the comparison of a rule that decides alone that the rule does not match;
// nil where the rule matches, or more than one would have to change.
func (p *Program) turning(e *entry, in *notify.Input) *Condition {
	// costs[i] is how many comparisons must change from step last + i on.
	costs := make([]int, e.first-e.last+1)
	holds := make([]bool, len(costs))
	cost := func(at int32) int {
		switch at {
		case matched:
			return 0
		case missed:
			return math.MaxInt / 2
		default:
			return costs[at-e.last]
		}
	}
	for i := range costs {
		s := &p.steps[e.last+int32(i)]
		holds[i] = s.holds(in)
		costs[i] = min(cost(s.next(holds[i])), 1+cost(s.next(!holds[i])))
	}
	if cost(e.first) != 1 {
		return nil
	}
	at := e.first
	for {
		s := &p.steps[at]
		next := s.next(holds[at-e.last])
		if cost(next) != 1 {
			return s.of
		}
		at = next
	}
}

func (s *step) next(holds bool) int32 {
	if holds {
		return s.then
	}
	return s.otherwise
}

// missed says what the rule asks for and what the event has instead.
func (c *Condition) missed(in *notify.Input) string {
	wanted := c.String()
	_, negated := c.positive()
	if new(Program).comparison(c)(in) != negated {
		wanted = "NOT(" + wanted + ")"
	}
	return fmt.Sprintf("asks for %s, found %s", wanted, fieldOf(c.Field).found(in))
}

// String returns the condition in one line.
func (c *Condition) String() string {
	var parts []string
	for i := range c.Rules {
		parts = append(parts, c.Rules[i].String())
	}
	for _, v := range c.Values {
		parts = append(parts, text(v))
	}
	list := strings.Join(parts, ", ")
	switch {
	case c.Op != "":
		return c.Op + "(" + list + ")"
	case c.Operator == "in" || c.Operator == "not_in":
		list = "[" + list + "]"
	}
	return strings.TrimSpace(c.Field + " " + c.Operator + " " + list)
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
		return "an array"
	default:
		return "null"
	}
}

// found returns the field's value of an event.
func (f *field) found(in *notify.Input) string {
	switch {
	case f.path != "":
		return text(in.Event.Metadata.Get(f.path))
	case f.text != nil && f.text(in) == "":
		return "null"
	case f.text != nil:
		return strconv.Quote(f.text(in))
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
