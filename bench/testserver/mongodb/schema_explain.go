package mongotest

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// explain appends the rules that v breaks as elements of an array.
func (s *schema) explain(dst []byte, v value) []byte {
	n := 0
	for i := range s.rules {
		if r := &s.rules[i]; !r.holds(v) {
			dst = r.explain(dst, strconv.Itoa(n), v)
			n++
		}
	}
	if v.Type != bsoncore.TypeEmbeddedDocument || s.acceptsFields(v.Data) {
		return dst
	}
	start, dst := bsoncore.AppendDocumentElementStart(dst, strconv.Itoa(n))
	dst = bsoncore.AppendStringElement(dst, "operatorName", "properties")
	list, dst := bsoncore.AppendArrayElementStart(dst, "propertiesNotSatisfied")
	dst = s.explainFields(dst, v.Data)
	return endDocument(endDocument(dst, list), start)
}

func (s *schema) explainFields(dst []byte, doc document) []byte {
	n := 0
	for _, p := range s.properties {
		v := lookup(doc, p.name)
		if v.Type == 0 || p.schema.accepts(v) {
			continue
		}
		start, grown := bsoncore.AppendDocumentElementStart(dst, strconv.Itoa(n))
		grown = bsoncore.AppendStringElement(grown, "propertyName", p.name)
		list, grown := bsoncore.AppendArrayElementStart(grown, "details")
		grown = p.schema.explain(grown, v)
		dst = endDocument(endDocument(grown, list), start)
		n++
	}
	return dst
}

func (r *rule) explain(dst []byte, key string, v value) []byte {
	start, dst := bsoncore.AppendDocumentElementStart(dst, key)
	dst = bsoncore.AppendStringElement(dst, "operatorName", r.keyword)
	specified, dst := bsoncore.AppendDocumentElementStart(dst, "specifiedAs")
	dst = endDocument(bsoncore.AppendValueElement(dst, r.keyword, r.specifiedAs), specified)
	if r.keyword == "required" {
		names, _ := namesOf(r.specifiedAs)
		list, grown := bsoncore.AppendArrayElementStart(dst, "missingProperties")
		for i, name := range missing(names, v.Data) {
			grown = bsoncore.AppendStringElement(grown, strconv.Itoa(i), name)
		}
		return endDocument(endDocument(grown, list), start)
	}
	if r.reason != "" {
		dst = bsoncore.AppendStringElement(dst, "reason", r.reason)
	}
	// A server leaves out values that are large; an array would be.
	if c := classOf(v.Type); c != classArray && c != classDocument {
		dst = bsoncore.AppendValueElement(dst, "consideredValue", v)
	}
	return endDocument(dst, start)
}
