package mongotest

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// index finds the record of a value of one field. It is a hash: good for equality,
// which is all that look-ups are made for. One that is not unique is a name only.
type index struct {
	name      string
	field     string
	direction value
	rest      []byte // elements of the key beyond the first, of an index that is not unique
	unique    bool
	entries   map[string]*record
}

func newIndex(name, field string, direction value, unique bool) *index {
	return &index{
		name: name, field: field, unique: unique,
		direction: value{Type: direction.Type, Data: slices.Clone(direction.Data)},
		entries:   make(map[string]*record),
	}
}

// parseIndex reads an element of createIndexes. Options that would change what
// an index does, and that this server does not know, are refused.
func parseIndex(spec document) (*index, error) {
	key, _ := lookup(spec, "key").DocumentOK()
	name, ok := lookup(spec, "name").StringValueOK()
	if !ok || name == "" {
		return nil, fail(codeMissingField, "BSON field 'createIndexes.indexes.name' is missing but a required field")
	}
	s := newScan(key)
	first, ok := s.next()
	if !ok {
		return nil, fail(codeCannotCreateIndex, "mongotest: an index needs a field, got %s", key)
	}
	rest, err := furtherFields(&s)
	if err != nil {
		return nil, err
	}
	direction := first.Value()
	if word, _ := direction.StringValueOK(); word != "hashed" && classOf(direction.Type) != classNumber {
		return nil, fail(codeCannotCreateIndex, "mongotest: index type %s is not supported", direction)
	}
	if err := refuseName(first.Key()); err != nil {
		return nil, err
	}
	unique := false
	for e := range fields(spec) {
		switch e.Key() {
		case "key", "name", "v", "background":
		case "unique":
			unique = isTrue(e.Value())
		default:
			return nil, fail(codeCannotCreateIndex, "mongotest: index option '%s' is not supported", e.Key())
		}
	}
	if unique && len(rest) > 0 {
		return nil, fail(codeCannotCreateIndex, "mongotest: a unique index needs exactly one field, got %s", key)
	}
	x := newIndex(name, first.Key(), direction, unique)
	x.rest = rest
	if unique && x.hashed() {
		return nil, fail(codeCannotCreateIndex, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.")
	}
	return x, nil
}

// furtherFields reads the fields of a compound index behind its first. They make no
// difference to what a query answers.
func furtherFields(s *scan) (rest []byte, err error) {
	for e, more := s.next(); more; e, more = s.next() {
		if classOf(e.Value().Type) != classNumber {
			return nil, fail(codeCannotCreateIndex, "mongotest: index type %s is not supported", e.Value())
		}
		if err := refuseName(e.Key()); err != nil {
			return nil, err
		}
		rest = append(rest, e...)
	}
	return rest, nil
}

// spec returns the index as listIndexes shows it.
func (x *index) spec() document {
	start, dst := bsoncore.AppendDocumentStart(nil)
	dst = bsoncore.AppendInt32Element(dst, "v", 2)
	key, dst := bsoncore.AppendDocumentElementStart(dst, "key")
	dst = endDocument(append(bsoncore.AppendValueElement(dst, x.field, x.direction), x.rest...), key)
	dst = bsoncore.AppendStringElement(dst, "name", x.name)
	if x.unique && x.name != "_id_" {
		dst = bsoncore.AppendBooleanElement(dst, "unique", true)
	}
	return endDocument(dst, start)
}

// keys returns the keys of a document: several for an array, and that of null
// where there is nothing.
func (x *index) keys(doc document) []string {
	var keys []string
	visit(lookup(doc, x.field), func(v value) bool {
		if v.Type != bsoncore.TypeArray {
			keys = append(keys, string(appendKey(nil, v)))
		}
		return false
	})
	if len(keys) == 0 {
		keys = append(keys, string(appendKey(nil, value{})))
	}
	return keys
}

// move takes r from the keys of its old document to those of the new one; nil
// stands for none.
func (x *index) move(r *record, old, doc document) {
	if !x.unique {
		return
	}
	if old != nil {
		for _, key := range x.keys(old) {
			if x.entries[key] == r { // a journal may put another there before
				delete(x.entries, key)
			}
		}
	}
	if doc != nil {
		for _, key := range x.keys(doc) {
			x.entries[key] = r
		}
	}
}

// admit refuses a document whose key another record has.
func (x *index) admit(c *collection, r *record, doc document) error {
	if !x.unique {
		return nil
	}
	for _, key := range x.keys(doc) {
		if other := x.entries[key]; other != nil && other != r {
			return x.duplicate(c.namespace, doc)
		}
	}
	return nil
}

func (x *index) duplicate(namespace string, doc document) *failure {
	v := lookup(doc, x.field)
	if v.Type == 0 {
		v.Type = bsoncore.TypeNull
	}
	pattern, dst := bsoncore.AppendDocumentElementStart(nil, "keyPattern")
	dst = endDocument(bsoncore.AppendValueElement(dst, x.field, x.direction), pattern)
	key, dst := bsoncore.AppendDocumentElementStart(dst, "keyValue")
	dst = endDocument(bsoncore.AppendValueElement(dst, x.field, v), key)
	return &failure{
		code: codeDuplicateKey, details: dst,
		message: fmt.Sprintf("E11000 duplicate key error collection: %s index: %s dup key: { %s: %s }",
			namespace, x.name, x.field, v),
	}
}
