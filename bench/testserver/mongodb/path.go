package mongotest

import (
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// path is a dotted field path, split.
type path []string

func parsePath(dotted string) path { return strings.Split(dotted, ".") }

// walk calls visit with every value a query on p sees in doc, until visit
// returns true, and reports whether it did. Arrays on the way are entered, both
// by position and by every document in them; an array at the end is visited
// element by element and then as a whole. An absent field is visited as the
// zero value.
func (p path) walk(doc []byte, visit func(value) bool) bool {
	v := lookup(doc, p[0])
	if len(p) == 1 {
		return visitLeaf(v, visit)
	}
	return p[1:].descend(v, visit)
}

// descend goes on with the rest of the path inside v.
func (p path) descend(v value, visit func(value) bool) bool {
	switch v.Type {
	case bsoncore.TypeEmbeddedDocument:
		return p.walk(v.Data, visit)
	case bsoncore.TypeArray:
		if at := lookup(v.Data, p[0]); at.Type != 0 && isPosition(p[0]) {
			if len(p) == 1 && visitLeaf(at, visit) {
				return true
			}
			if len(p) > 1 && p[1:].descend(at, visit) {
				return true
			}
		}
		for e := range fields(v.Data) {
			if inner := e.Value(); inner.Type == bsoncore.TypeEmbeddedDocument && p.walk(inner.Data, visit) {
				return true
			}
		}
		return false
	default:
		return visit(value{})
	}
}

func visitLeaf(v value, visit func(value) bool) bool {
	if v.Type == bsoncore.TypeArray {
		for e := range fields(v.Data) {
			if visit(e.Value()) {
				return true
			}
		}
	}
	return visit(v)
}

func isPosition(key string) bool {
	_, err := strconv.ParseUint(key, 10, 31)
	return err == nil
}
