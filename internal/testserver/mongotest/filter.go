package mongotest

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// filter is a compiled query: conditions that a document must all satisfy.
type filter struct {
	conditions []func(document) bool
	// equals lists what every matching document must have, for index look-ups
	// and for the document an upsert begins with.
	equals []equality
}

// equality: the field holds one of values. None of them is null or an array,
// which also match documents that an index look-up would not find.
type equality struct {
	field  string
	values []value
	exact  bool // one value, given as field: value
}

func (f *filter) matches(doc document) bool {
	for _, holds := range f.conditions {
		if !holds(doc) {
			return false
		}
	}
	return true
}

// visit calls f with what a query sees in a field, until f returns true, and
// reports whether it did: of an array every element and then the whole, the zero
// value for an absent field.
func visit(v value, f func(value) bool) bool {
	if v.Type == bsoncore.TypeArray {
		for e := range fields(v.Data) {
			if f(e.Value()) {
				return true
			}
		}
	}
	return f(v)
}

// parseFilter compiles a query. What the server would refuse, and what this one
// does not know, is an error.
func parseFilter(query document) (*filter, error) {
	f := &filter{}
	for e := range fields(query) {
		var err error
		if e.Key() == "$jsonSchema" {
			var s schema
			s, err = parseSchema(e.Value())
			f.conditions = append(f.conditions, s.matches)
		} else {
			err = f.addField(e.Key(), e.Value())
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *filter) addField(field string, v value) error {
	if err := refuseName(field); err != nil {
		return err
	}
	if !isOperators(v) {
		f.note(field, true, v)
		f.accept(field, oneOf([]value{v}))
		return nil
	}
	for e := range fields(v.Data) {
		accepts, err := f.parseOperator(field, e.Key(), e.Value())
		if err != nil {
			return err
		}
		f.accept(field, accepts)
	}
	return nil
}

// accept wants a value of the field that is accepted.
func (f *filter) accept(field string, accepts func(value) bool) {
	f.conditions = append(f.conditions, func(doc document) bool { return visit(lookup(doc, field), accepts) })
}

// refuseName refuses the name of a field that means more than a field at the top
// level of a document.
func refuseName(field string) error {
	if field == "" || field[0] == '$' || strings.Contains(field, ".") {
		return fail(codeBadValue, "mongotest: '%s' is not supported: only fields at the top level, and $jsonSchema, are", field)
	}
	return nil
}

// isOperators reports whether v is {$operator: ...} rather than a value.
func isOperators(v value) bool {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return false
	}
	s := newScan(v.Data)
	e, ok := s.next()
	return ok && strings.HasPrefix(e.Key(), "$")
}

// note keeps an equality that every match must have.
func (f *filter) note(field string, exact bool, values ...value) {
	for _, v := range values {
		if c := classOf(v.Type); c == classNull || c == classArray {
			return
		}
	}
	f.equals = append(f.equals, equality{field, values, exact})
}
