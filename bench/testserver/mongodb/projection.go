package mongotest

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// projection says which fields of a document are returned.
type projection struct {
	fields  map[string]*projection // nil for a whole field
	include bool
	id      bool // _id is returned
}

// parseProjection reads {field: 1, ...} or {field: 0, ...}; nil returns
// documents as they are.
func parseProjection(spec document) (*projection, error) {
	var p *projection
	id, named := true, false
	for e := range fields(spec) {
		key, v := e.Key(), e.Value()
		if classOf(v.Type) != classNumber && v.Type != bsoncore.TypeBoolean {
			return nil, fail(codeBadValue, "mongotest: projection of '%s' must be a number or a boolean", key)
		}
		if key == "_id" {
			id, named = truthy(v), true
			continue
		}
		if p == nil {
			p = &projection{include: truthy(v)}
		}
		if p.include != truthy(v) {
			return nil, fail(31254, "Cannot mix inclusion and exclusion in a projection: %s", key)
		}
		if err := p.add(parsePath(key)); err != nil {
			return nil, err
		}
	}
	if p == nil {
		if !named {
			return nil, nil
		}
		p = &projection{include: id} // only _id was named
	}
	p.id = id
	return p, nil
}

func (p *projection) add(at path) error {
	if p.fields == nil {
		p.fields = make(map[string]*projection)
	}
	inner, known := p.fields[at[0]]
	if known && (inner == nil || len(at) == 1) {
		return fail(31249, "Path collision at %s", at[0])
	}
	if len(at) == 1 {
		p.fields[at[0]] = nil
		return nil
	}
	if inner == nil {
		inner = &projection{include: p.include, id: p.include}
		p.fields[at[0]] = inner
	}
	return inner.add(at[1:])
}

// append appends the projected document. nested says that _id is a field like
// any other.
func (p *projection) append(dst []byte, doc []byte, nested bool) []byte {
	start, dst := bsoncore.AppendDocumentStart(dst)
	for e := range fields(doc) {
		key := e.KeyBytes()
		if !nested && string(key) == "_id" {
			if p.id {
				dst = append(dst, e...)
			}
			continue
		}
		inner, named := p.fields[string(key)]
		switch v := e.Value(); {
		case !named:
			if !p.include {
				dst = append(dst, e...)
			}
		case inner == nil:
			if p.include {
				dst = append(dst, e...)
			}
		case v.Type == bsoncore.TypeEmbeddedDocument:
			dst = inner.append(bsoncore.AppendHeader(dst, v.Type, string(key)), v.Data, true)
		case v.Type == bsoncore.TypeArray:
			dst = inner.appendArray(bsoncore.AppendHeader(dst, v.Type, string(key)), v.Data)
		case !p.include:
			dst = append(dst, e...)
		}
	}
	return endDocument(dst, start)
}

// appendArray projects the documents of an array and, on inclusion, drops all
// else in it.
func (p *projection) appendArray(dst []byte, array []byte) []byte {
	start, dst := bsoncore.AppendArrayStart(dst)
	n := 0
	for e := range fields(array) {
		v := e.Value()
		switch {
		case v.Type == bsoncore.TypeEmbeddedDocument:
			dst = p.append(appendPosition(dst, v.Type, n), v.Data, true)
		case v.Type == bsoncore.TypeArray:
			dst = p.appendArray(appendPosition(dst, v.Type, n), v.Data)
		case !p.include:
			dst = append(appendPosition(dst, v.Type, n), v.Data...)
		default:
			continue
		}
		n++
	}
	return endDocument(dst, start)
}

func appendPosition(dst []byte, t bsoncore.Type, n int) []byte {
	return bsoncore.AppendHeader(dst, t, strconv.Itoa(n))
}
