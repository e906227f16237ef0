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
	// value is the kind of its values, and of the fields that it is for; 0: it takes any that
	// the field can have.
	value notify.Kind
	// certain: it is true of every event with a field that is never null.
	certain bool
	compile func(f *field, values []notify.Value) func(*notify.Input) bool
}

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
	{name: "gt", value: notify.Number, compile: ordered(func(order int) bool { return order > 0 })},
	{name: "lt", value: notify.Number, compile: ordered(func(order int) bool { return order < 0 })},
	{name: "gte", value: notify.Number, compile: ordered(func(order int) bool { return order >= 0 })},
	{name: "lte", value: notify.Number, compile: ordered(func(order int) bool { return order <= 0 })},
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
	switch positive.value {
	case notify.Number:
		return f.number != nil || f.path != ""
	case notify.String:
		return f.text != nil || f.path != ""
	default:
		return true
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

// kindNames are kinds of values in the plural.
var kindNames = map[notify.Kind]string{notify.Number: "numbers", notify.String: "texts"}

func equal(f *field, values []notify.Value) func(*notify.Input) bool {
	switch {
	case f.path != "":
		return equalMetadata(f.path, values)
	case f.set != nil:
		return f.anyOf(values)
	case f.text != nil:
		return f.equalText(values)
	default:
		return f.equalNumber(values)
	}
}

func exists(f *field, _ []notify.Value) func(*notify.Input) bool {
	switch {
	case f.path != "":
		return func(in *notify.Input) bool { return in.Event.Metadata.Get(f.path).Kind > notify.Null }
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
func ordered(holds func(order int) bool) func(*field, []notify.Value) func(*notify.Input) bool {
	return func(f *field, values []notify.Value) func(*notify.Input) bool {
		value := values[0].Number
		if f.path != "" {
			return metadata(f.path, notify.Number, func(v notify.Value) bool { return holds(v.Number.Compare(value)) })
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

// metadata compares a metadata value of a kind. One of another kind holds for nothing.
func metadata(path string, kind notify.Kind, holds func(notify.Value) bool) func(*notify.Input) bool {
	return func(in *notify.Input) bool {
		v := in.Event.Metadata.Get(path)
		return v.Kind == kind && holds(v)
	}
}
