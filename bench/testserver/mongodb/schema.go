package mongotest

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// schema is a compiled $jsonSchema, or a part of one: rules that a value must
// all satisfy. A rule on another kind of value than it is for is satisfied.
type schema struct {
	rules      []rule
	properties []property
}

// rule is one keyword.
type rule struct {
	keyword string
	operand value
	holds   func(value) bool
}

// property is the schema of one field, where the field is present.
type property struct {
	name   string
	schema *schema
}

func (s *schema) matches(doc document) bool {
	return s.accepts(value{Type: bsoncore.TypeEmbeddedDocument, Data: doc})
}

func (s *schema) accepts(v value) bool {
	for i := range s.rules {
		if !s.rules[i].holds(v) {
			return false
		}
	}
	return v.Type != bsoncore.TypeEmbeddedDocument || s.acceptsFields(v.Data)
}

func (s *schema) acceptsFields(doc document) bool {
	if len(s.properties) == 0 {
		return true
	}
	for e := range fields(doc) {
		key := e.KeyBytes()
		for i := range s.properties {
			if p := &s.properties[i]; p.name == string(key) && !p.schema.accepts(e.Value()) {
				return false
			}
		}
	}
	return true
}

// parseSchema compiles the keywords this server knows and refuses all others.
func parseSchema(source document) (*schema, error) {
	s := &schema{}
	for e := range fields(source) {
		if err := s.parseKeyword(e.Key(), e.Value()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *schema) parseKeyword(keyword string, v value) error {
	var holds func(value) bool
	var err error
	switch keyword {
	case "title", "description":
		return nil
	case "properties":
		return s.parseProperties(v)
	case "bsonType":
		var types []bsoncore.Type
		types, err = typesOf(v)
		holds = func(v value) bool { return slices.Contains(types, v.Type) }
	case "required":
		holds, err = requiredRule(v)
	case "enum":
		var values []value
		values, err = listOf(keyword, v)
		holds = oneOf(values)
	case "minimum":
		holds, err = minimumRule(v)
	case "minItems", "maxItems":
		holds, err = lengthRule(keyword, v)
	case "items":
		holds, err = itemsRule(v)
	case "anyOf":
		holds, err = anyOfRule(v)
	case "not":
		holds, err = notRule(v)
	default:
		return fail(codeFailedToParse, "mongotest: $jsonSchema keyword '%s' is not supported", keyword)
	}
	s.rules = append(s.rules, rule{keyword, v, holds})
	return err
}

func (s *schema) parseProperties(v value) error {
	doc, ok := v.DocumentOK()
	if !ok {
		return fail(codeTypeMismatch, "$jsonSchema keyword 'properties' must be an object")
	}
	for e := range fields(doc) {
		inner, err := subSchema("properties", e.Value())
		if err != nil {
			return err
		}
		s.properties = append(s.properties, property{e.Key(), inner})
	}
	return nil
}

func subSchema(keyword string, v value) (*schema, error) {
	doc, ok := v.DocumentOK()
	if !ok {
		return nil, fail(codeTypeMismatch, "$jsonSchema keyword '%s' needs objects", keyword)
	}
	return parseSchema(doc)
}
