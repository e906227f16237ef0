package rule

import (
	"cmp"
	"slices"

	"keyfold/engine/notify"
)

// operator is what a comparison can ask of a field. The parser, its faults and the compiler go
// by the table of operators; a test compares docs/examples/notify/README.md with it.
type operator struct {
	name    string
	negates string // the operator of which it is the negation and takes the same; "": it has its own
	takes   arity
	fields  content // what its fields hold
	// value is the kind of its values; 0: it takes any that the field can have.
	value notify.Kind
	// check says what is wrong with a value of the kind, with the cure; "": nothing. nil: all
	// are right.
	check func(notify.Value) string
	// certain: it is true of every event with a field that is never null.
	certain bool
	compile func(f *field, c *Condition) func(*notify.Input) bool
}

// content is what an operator's fields hold. Metadata and attributes may hold all.
type content string

const (
	ofAnything content = "" // that is not an instant
	ofNumbers  content = "numbers"
	ofTexts    content = "texts"
	ofInstants content = "instants"
)

// arity is how many values an operator takes.
type arity uint8

const (
	one arity = iota
	none
	list // one or more
)

// operators are in the order in which messages list them.
var operators = []operator{
	{name: "eq", compile: equal},
	{name: "neq", negates: "eq"},
	{name: "in", takes: list, compile: equal},
	{name: "not_in", negates: "in"},
	{name: "exists", takes: none, certain: true, compile: exists},
	{name: "not_exists", negates: "exists"},
	{name: "gt", fields: ofNumbers, value: notify.Number, compile: ordered(func(order int) bool { return order > 0 })},
	{name: "lt", fields: ofNumbers, value: notify.Number, compile: ordered(func(order int) bool { return order < 0 })},
	{name: "gte", fields: ofNumbers, value: notify.Number, compile: ordered(func(order int) bool { return order >= 0 })},
	{name: "lte", fields: ofNumbers, value: notify.Number, compile: ordered(func(order int) bool { return order <= 0 })},
	{name: "prefix", fields: ofTexts, value: notify.String, check: checkText, compile: prefix},
	{name: "contains", fields: ofTexts, value: notify.String, check: checkText, compile: contains},
	{name: "before", fields: ofInstants, value: notify.String, check: checkInstant, compile: timed(func(order int) bool { return order < 0 })},
	{name: "after", fields: ofInstants, value: notify.String, check: checkInstant, compile: timed(func(order int) bool { return order > 0 })},
	{name: "percent", fields: ofTexts, value: notify.Number, check: checkPercent, compile: percent},
}

// operatorOf returns the operator of a name, nil where there is none.
func operatorOf(name string) *operator {
	if i := slices.IndexFunc(operators, func(o operator) bool { return o.name == name }); i >= 0 {
		return &operators[i]
	}
	return nil
}

// positive returns the operator of which this one is the negation, or is it.
func (o *operator) positive() (positive *operator, negated bool) {
	if o.negates == "" {
		return o, false
	}
	return operatorOf(o.negates), true
}

// suits reports whether a field has the operator.
func (o *operator) suits(f *field) bool {
	positive, _ := o.positive()
	switch positive.fields {
	case ofNumbers:
		return f.number != nil || f.path != ""
	case ofTexts:
		return f.text != nil || f.path != ""
	case ofInstants:
		return f.instant != nil || f.path != ""
	default:
		return f.instant == nil
	}
}

// operatorsOf returns the names of a field's operators; nil: of all.
func operatorsOf(f *field) (names []string) {
	for i := range operators {
		if f == nil || operators[i].suits(f) {
			names = append(names, operators[i].name)
		}
	}
	return names
}

// plural returns the fields' content for texts of faults.
func (c content) plural() string {
	if c == ofAnything {
		return "what is no instant"
	}
	return string(c)
}

// kindNames are kinds of values in the plural.
var kindNames = map[notify.Kind]string{notify.Number: "numbers", notify.String: "texts"}

func equal(f *field, c *Condition) func(*notify.Input) bool {
	switch {
	case f.path != "":
		return f.equalValue(c.Values)
	case f.set != nil:
		return f.anyOf(c.Values)
	case f.text != nil:
		return f.equalText(c.Values)
	default:
		return f.equalNumber(c.Values)
	}
}

func exists(f *field, _ *Condition) func(*notify.Input) bool {
	switch {
	case f.path != "":
		return func(in *notify.Input) bool { return f.value(in).Kind > notify.Null }
	case f.set != nil:
		return func(in *notify.Input) bool { return f.set(in)&1 == 0 }
	case f.text != nil:
		return func(in *notify.Input) bool { return f.text(in) != "" }
	default:
		return func(in *notify.Input) bool { _, there := f.number(in); return there }
	}
}

// ordered returns the compile of an operator that holds by how the event's number compares
// with the value.
func ordered(holds func(order int) bool) func(*field, *Condition) func(*notify.Input) bool {
	return func(f *field, c *Condition) func(*notify.Input) bool {
		value := c.Values[0].Number
		if f.path != "" {
			return f.ofKind(notify.Number, func(v notify.Value) bool { return holds(v.Number.Compare(value)) })
		}
		number := f.number
		floor, exact := value.Floor(f.places)
		return func(in *notify.Input) bool {
			n, there := number(in)
			order := cmp.Compare(n, floor)
			if order == 0 && !exact { // the value is above its floor
				order = -1
			}
			return there && holds(order)
		}
	}
}

// ofKind compares a value of a kind under the field's path. One of another kind holds for
// nothing.
func (f *field) ofKind(kind notify.Kind, holds func(notify.Value) bool) func(*notify.Input) bool {
	return func(in *notify.Input) bool {
		v := f.value(in)
		return v.Kind == kind && holds(v)
	}
}
