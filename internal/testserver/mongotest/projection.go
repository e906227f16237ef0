package mongotest

import "go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

// projection says which fields of a document are returned; nil returns all.
type projection map[string]bool

// parseProjection reads {field: 1, ...}, where _id may be 0.
func parseProjection(spec document) (projection, error) {
	if len(spec) <= len(emptyDocument) {
		return nil, nil
	}
	p := projection{"_id": true}
	for e := range fields(spec) {
		if err := refuseName(e.Key()); err != nil {
			return nil, err
		}
		p[e.Key()] = isTrue(e.Value())
		if e.Key() != "_id" && !p[e.Key()] {
			return nil, fail(codeBadValue, "mongotest: fields cannot be excluded, but for _id: %s", e.Key())
		}
	}
	return p, nil
}

// apply returns the projected document.
func (p projection) apply(doc document) document {
	start, dst := bsoncore.AppendDocumentStart(nil)
	for e := range fields(doc) {
		if p[string(e.KeyBytes())] {
			dst = append(dst, e...)
		}
	}
	return endDocument(dst, start)
}
