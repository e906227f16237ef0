package rule

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// Condition is a combination of conditions, a comparison, or always true. The package's
// comment has its laws.
type Condition struct {
	Op    string // "AND", "OR", "NOT"; [always]; "" for a comparison
	Rules []Condition

	Field    string
	Operator string
	Values   []notify.Value // as many as the operator takes
	rule     uuid.UUID      // whose comparison it is
}

// always is the Op of a condition that every event meets.
const always = "ALWAYS"

// ops are the ways to combine conditions.
var ops = []string{"AND", "OR", "NOT"}

func (r *reader) condition(n *node, depth int, nodes *int) (c Condition) {
	*nodes++
	switch {
	case *nodes == MaxNodes+1:
		r.fault(n, "the rule has more than %d conditions: split it", MaxNodes)
		return c
	case *nodes > MaxNodes:
		return c
	case depth > MaxDepth:
		r.fault(n, "conditions are more than %d deep in each other: split the rule", MaxDepth)
		return c
	case n.kind == '{' && (n.get("op") != nil || n.get("rules") != nil):
		r.combination(n, depth, nodes, &c)
	case n.kind == '{' && n.get(alwaysKey) != nil:
		c.Op = always
		r.object(n, key{alwaysKey, true, func(n *node) {
			if r.is(n, 'f') && n.kind == 'f' {
				r.fault(n, "always is true only: to switch the rule off set enabled to false")
			}
		}})
	default:
		r.comparison(n, &c)
	}
	return c
}

// alwaysKey is the key of a condition that every event meets.
const alwaysKey = "always"

func (r *reader) combination(n *node, depth int, nodes *int, c *Condition) {
	r.object(n,
		key{"op", true, func(n *node) {
			if !r.is(n, '"') {
				return
			}
			if c.Op = n.text; !slices.Contains(ops, n.text) {
				r.fault(n, "unknown op %q: %s", n.text, hint(n.text, ops))
			}
		}},
		key{"rules", true, func(n *node) {
			if !r.is(n, '[') {
				return
			}
			if len(n.items) == 0 && c.Op != "NOT" {
				r.fault(n, "%s has no conditions: name one, or remove it", cmp.Or(c.Op, "the list"))
			} else if c.Op == "NOT" && len(n.items) != 1 {
				r.fault(n, "NOT has %d conditions, expected 1: put AND or OR around them", len(n.items))
			}
			for _, item := range n.items {
				c.Rules = append(c.Rules, r.condition(item, depth+1, nodes))
			}
		}},
	)
}

func (r *reader) comparison(n *node, c *Condition) {
	var f *field
	var value *node
	c.rule = r.id
	r.object(n,
		key{"field", true, func(n *node) {
			if f = r.field(n); f != nil {
				c.Field = f.name
			}
		}},
		key{"operator", true, func(n *node) { c.Operator = r.operator(n, f) }},
		key{"value", false, func(*node) {}},
	)
	if n.kind != '{' || c.Operator == "" {
		return
	}
	value = n.get("value") // null is a value
	o, _ := operatorOf(c.Operator).positive()
	switch {
	case o.takes == none && value != nil:
		r.fault(value, "%s takes no value: remove it", c.Operator)
	case o.takes == none:
	case value == nil:
		r.fault(n, "%s needs a value: add the key \"value\"", c.Operator)
	case o.takes == list && value.kind != '[':
		r.fault(value, "%s takes a list, found %s: put it in brackets", c.Operator, value.withArticle())
	case o.takes == list:
		r.list(value, 1, func(item *node) { c.Values = append(c.Values, r.constant(item, f, c.Operator, o)) })
	case value.kind == '[':
		r.fault(value, "%s takes one value, found a list: use in or not_in", c.Operator)
	default:
		c.Values = []notify.Value{r.constant(value, f, c.Operator, o)}
	}
}

// operator reads an operator that the field has, if it is known.
func (r *reader) operator(n *node, f *field) string {
	if !r.is(n, '"') {
		return ""
	}
	switch o := operatorOf(n.text); {
	case o == nil:
		r.fault(n, "unknown operator %q: %s", n.text, hint(n.text, operatorsOf(nil)))
		return ""
	case f != nil && !o.suits(f):
		positive, _ := o.positive()
		r.fault(n, "%s is for %s, which %s is not: use one of %s", n.text, positive.fields.plural(), f.name, strings.Join(operatorsOf(f), ", "))
		return ""
	}
	return n.text
}

// constant reads a value that the field, if it is known, is compared with by an operator,
// of which o is the positive one.
func (r *reader) constant(n *node, f *field, operator string, o *operator) (v notify.Value) {
	switch n.kind {
	case 'n':
		v.Kind = notify.Null
	case 't', 'f':
		v = notify.Value{Kind: notify.Bool, Bool: n.kind == 't'}
	case '"':
		v = notify.Value{Kind: notify.String, Text: n.text}
	case '0':
		d, err := notify.ParseDecimal(n.text)
		if err != nil {
			r.fault(n, "found %.40s: %v", n.text, err)
		}
		v = notify.Value{Kind: notify.Number, Text: n.text, Number: d}
	default:
		r.fault(n, "found %s, expected a single value", n.withArticle())
		return v
	}
	switch {
	case o.value != 0 && v.Kind != o.value:
		r.fault(n, "%s compares %s, found %s", operator, kindNames[o.value], n.withArticle())
	case o.check != nil:
		if fault := o.check(v); fault != "" {
			r.fault(n, "%s: %s", operator, fault)
		}
	case f == nil || o.value != 0 || v.Kind == notify.Null:
	default:
		r.suits(n, f, v)
	}
	return v
}

// suits names the fault of a constant that a field never has.
func (r *reader) suits(n *node, f *field, v notify.Value) {
	switch {
	case f.path != "":
	case f.words != nil:
		if r.is(n, '"') && !slices.Contains(f.words, v.Text) {
			r.fault(n, "unknown value %q of %s: %s", v.Text, f.name, hint(v.Text, f.words))
		}
	case f.set != nil:
		r.is(n, 'f')
	case f.text != nil:
		if r.is(n, '"') && v.Text == "" {
			r.fault(n, "%s is never empty: use null for an event without it", f.name)
		}
	default:
		least, most := f.bounds[0], f.bounds[1]
		if at, _ := v.Number.Floor(0); r.is(n, '0') && most > 0 && (at < least || at > most) {
			r.fault(n, "%s is %d to %d, found %s", f.name, least, most, n.text)
		}
	}
}
