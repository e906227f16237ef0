package mongotest

import "go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

// projection says which fields of a document are returned.
type projection struct {
	fields  map[string]bool
	include bool // the fields are those that are returned, rather than left out
	id      bool // _id is returned
}

// parseProjection reads {field: 1, ...} or {field: 0, ...}; nil returns
// documents as they are.
func parseProjection(spec document) (*projection, error) {
	if len(spec) <= len(emptyDocument) {
		return nil, nil
	}
	p := &projection{fields: make(map[string]bool), id: true}
	for e := range fields(spec) {
		key, v := e.Key(), e.Value()
		if err := refuseName(key); err != nil {
			return nil, err
		}
		if classOf(v.Type) != classNumber && v.Type != bsoncore.TypeBoolean {
			return nil, fail(codeBadValue, "mongotest: projection of '%s' must be a number or a boolean", key)
		}
		if key == "_id" {
			p.id = isTrue(v)
			continue
		}
		if len(p.fields) > 0 && p.include != isTrue(v) {
			return nil, fail(31254, "Cannot mix inclusion and exclusion in a projection: %s", key)
		}
		p.include = isTrue(v)
		p.fields[key] = true
	}
	if len(p.fields) == 0 {
		p.include = p.id // only _id was named
	}
	return p, nil
}

// apply returns the projected document.
func (p *projection) apply(doc document) document {
	start, dst := bsoncore.AppendDocumentStart(nil)
	for e := range fields(doc) {
		key := string(e.KeyBytes())
		if key == "_id" && p.id || key != "_id" && p.fields[key] == p.include {
			dst = append(dst, e...)
		}
	}
	return endDocument(dst, start)
}
