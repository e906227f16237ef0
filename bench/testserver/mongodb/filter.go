package mongotest

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// filter is a compiled query.
type filter struct {
	root node
	// equals lists what every matching document must have, for index look-ups
	// and for the document an upsert begins with.
	equals []equality
}

// equality: the field holds one of values. None of them is null or an array,
// which also match documents that an index look-up would not find.
type equality struct {
	field  string
	values []value
	exact  bool // one value, given as field: value or with $eq
}

func (f *filter) matches(doc document) bool { return f.root.matches(doc) }

// node is one condition on a document.
type node interface {
	matches(doc document) bool
}

type allOf []node

func (a allOf) matches(doc document) bool {
	for _, n := range a {
		if !n.matches(doc) {
			return false
		}
	}
	return true
}

type anyOf []node

func (a anyOf) matches(doc document) bool {
	for _, n := range a {
		if n.matches(doc) {
			return true
		}
	}
	return false
}

type not struct{ node }

func (n not) matches(doc document) bool { return !n.node.matches(doc) }

// leaf holds where the test accepts a value at the path.
type leaf struct {
	path path
	test func(value) bool
}

func (l leaf) matches(doc document) bool { return l.path.walk(doc, l.test) }

// parseFilter compiles a query. What the server would refuse, and what this one
// does not know, is an error.
func parseFilter(query document) (*filter, error) {
	f := &filter{}
	root, err := f.parse(query, true)
	if err != nil {
		return nil, err
	}
	f.root = root
	return f, nil
}

// parse compiles one level; sure says that a document cannot match without
// matching here.
func (f *filter) parse(query document, sure bool) (node, error) {
	var all allOf
	for e := range fields(query) {
		key, v := e.Key(), e.Value()
		var n node
		var err error
		if strings.HasPrefix(key, "$") {
			n, err = f.parseTopLevel(key, v, sure)
		} else {
			n, err = f.parseField(key, v, sure)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

func (f *filter) parseTopLevel(key string, v value, sure bool) (node, error) {
	switch key {
	case "$and":
		nodes, err := f.parseList(key, v, sure)
		return allOf(nodes), err
	case "$or":
		nodes, err := f.parseList(key, v, false)
		return anyOf(nodes), err
	case "$nor":
		nodes, err := f.parseList(key, v, false)
		return not{anyOf(nodes)}, err
	case "$jsonSchema":
		doc, ok := v.DocumentOK()
		if !ok {
			return nil, fail(codeTypeMismatch, "$jsonSchema must be an object")
		}
		return parseSchema(doc)
	case "$comment":
		return allOf(nil), nil
	default:
		return nil, fail(codeBadValue, "unknown top level operator: %s. If you have a field name that starts "+
			"with a '$' symbol, consider using $getField or $setField.", key)
	}
}

func (f *filter) parseList(key string, v value, sure bool) ([]node, error) {
	list, ok := v.ArrayOK()
	if !ok {
		return nil, fail(codeBadValue, "%s must be an array", key)
	}
	var nodes []node
	for e := range fields(list) {
		doc, ok := e.Value().DocumentOK()
		if !ok {
			return nil, fail(codeBadValue, "%s entries need to be full objects", key)
		}
		n, err := f.parse(doc, sure)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, fail(codeBadValue, "%s must be a nonempty array", key)
	}
	return nodes, nil
}

func (f *filter) parseField(key string, v value, sure bool) (node, error) {
	if !isOperators(v) {
		if v.Type == bsoncore.TypeRegex {
			return nil, fail(codeBadValue, "mongotest: regular expressions are not supported")
		}
		f.note(sure, key, true, v)
		return leaf{parsePath(key), equals(v)}, nil
	}
	var all allOf
	for e := range fields(v.Data) {
		n, err := f.parseOperator(key, e.Key(), e.Value(), sure)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
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
func (f *filter) note(sure bool, field string, exact bool, values ...value) {
	if !sure {
		return
	}
	for _, v := range values {
		if c := classOf(v.Type); c == classNull || c == classArray || c == classRegex {
			return
		}
	}
	f.equals = append(f.equals, equality{field, values, exact})
}
