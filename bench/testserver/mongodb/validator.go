package mongotest

import "go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

// validator is a collection's validation rule with its level and action.
type validator struct {
	rule     *filter
	source   document
	moderate bool // documents that broke the rule already may go on doing so
	warn     bool // a document that breaks it is taken all the same
}

// parseValidator reads the options validator, validationLevel and
// validationAction; nil where nothing is to be checked.
func parseValidator(options document) (*validator, error) {
	source, ok := lookup(options, "validator").DocumentOK()
	if !ok || len(source) <= 5 {
		return nil, nil
	}
	rule, err := parseFilter(source)
	if err != nil {
		return nil, err
	}
	level, _ := lookup(options, "validationLevel").StringValueOK()
	action, _ := lookup(options, "validationAction").StringValueOK()
	switch level {
	case "off":
		return nil, nil
	case "", "strict", "moderate":
	default:
		return nil, fail(codeBadValue, "Enumeration value %q for field 'validationLevel' is not a valid value.", level)
	}
	if action != "" && action != "error" && action != "warn" {
		return nil, fail(codeBadValue, "Enumeration value %q for field 'validationAction' is not a valid value.", action)
	}
	return &validator{rule: rule, source: source, moderate: level == "moderate", warn: action == "warn"}, nil
}

// check refuses a document that breaks the rule. before is what it replaces,
// nil for a new one.
func (v *validator) check(before, doc document) error {
	if v == nil || v.warn || v.rule.matches(doc) {
		return nil
	}
	if v.moderate && before != nil && !v.rule.matches(before) {
		return nil
	}
	start, info := bsoncore.AppendDocumentElementStart(nil, "errInfo")
	if id := lookup(doc, "_id"); id.Type != 0 {
		info = bsoncore.AppendValueElement(info, "failingDocumentId", id)
	}
	inner, info := bsoncore.AppendDocumentElementStart(info, "details")
	info = explain(info, v.rule.root, v.source, doc)
	info = endDocument(info, inner)
	return &failure{code: codeValidation, message: "Document failed validation", details: endDocument(info, start)}
}

// explain appends why doc breaks the rule: rule by rule for a schema that
// stands alone, and by the whole expression otherwise.
func explain(dst []byte, rule node, source, doc document) []byte {
	s, ok := rule.(*schema)
	if !ok {
		dst = bsoncore.AppendStringElement(dst, "operatorName", "$and")
		dst = bsoncore.AppendDocumentElement(dst, "specifiedAs", source)
		return bsoncore.AppendStringElement(dst, "reason", "expression did not match")
	}
	dst = bsoncore.AppendStringElement(dst, "operatorName", "$jsonSchema")
	start, dst := bsoncore.AppendArrayElementStart(dst, "schemaRulesNotSatisfied")
	dst = s.explain(dst, value{Type: bsoncore.TypeEmbeddedDocument, Data: doc})
	return endDocument(dst, start)
}
