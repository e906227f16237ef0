package mongotest

import (
	"regexp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// schema is a compiled $jsonSchema, or a keyword of one. A keyword accepts every
// value of another kind than it is for.
type schema func(value) bool

func (s schema) matches(doc document) bool {
	return s(value{Type: bsoncore.TypeEmbeddedDocument, Data: doc})
}

// parseSchema compiles the keywords this server knows and refuses all others.
func parseSchema(v value) (schema, error) {
	source, ok := v.DocumentOK()
	if !ok {
		return nil, fail(codeTypeMismatch, "$jsonSchema needs objects, got %s", v)
	}
	var keywords []schema
	for e := range fields(source) {
		if e.Key() == "description" {
			continue
		}
		keyword, err := parseKeyword(e.Key(), e.Value())
		if err != nil {
			return nil, err
		}
		keywords = append(keywords, keyword)
	}
	return func(v value) bool {
		for _, keyword := range keywords {
			if !keyword(v) {
				return false
			}
		}
		return true
	}, nil
}

func parseKeyword(keyword string, v value) (schema, error) {
	switch keyword {
	case "properties":
		return propertiesKeyword(v)
	case "bsonType":
		types, err := typesOf(v)
		return func(v value) bool { return slices.Contains(types, v.Type) }, err
	case "required":
		names, err := listOf(keyword, v)
		missing := func(v value) func(value) bool {
			return func(name value) bool { return lookup(v.Data, name.StringValue()).Type == 0 }
		}
		return func(v value) bool {
			return v.Type != bsoncore.TypeEmbeddedDocument || !slices.ContainsFunc(names, missing(v))
		}, err
	case "pattern":
		pattern, err := regexp.Compile(v.StringValue())
		if err != nil {
			return nil, fail(codeFailedToParse, "mongotest: $jsonSchema pattern: %v", err)
		}
		return func(v value) bool { return v.Type != bsoncore.TypeString || pattern.MatchString(v.StringValue()) }, nil
	case "enum":
		values, err := listOf(keyword, v)
		return oneOf(values), err
	case "minimum":
		within := ordered("$gte", v)
		return func(v value) bool { return classOf(v.Type) != classNumber || within(v) }, nil
	case "minItems", "maxItems":
		limit, _ := v.AsInt64OK()
		return func(v value) bool {
			if v.Type != bsoncore.TypeArray {
				return true
			}
			n := int64(0)
			for range fields(v.Data) {
				n++
			}
			return n == limit || n > limit == (keyword == "minItems")
		}, nil
	case "items":
		return itemsKeyword(v)
	case "anyOf":
		return anyOfKeyword(v)
	case "not":
		inner, err := parseSchema(v)
		return func(v value) bool { return !inner(v) }, err
	default:
		return nil, fail(codeFailedToParse, "mongotest: $jsonSchema keyword '%s' is not supported", keyword)
	}
}

func propertiesKeyword(v value) (schema, error) {
	properties := make(map[string]schema)
	for e := range fields(v.Data) {
		inner, err := parseSchema(e.Value())
		if err != nil {
			return nil, err
		}
		properties[e.Key()] = inner
	}
	return func(v value) bool {
		if v.Type != bsoncore.TypeEmbeddedDocument {
			return true
		}
		for e := range fields(v.Data) {
			if inner := properties[string(e.KeyBytes())]; inner != nil && !inner(e.Value()) {
				return false
			}
		}
		return true
	}, nil
}

func anyOfKeyword(v value) (schema, error) {
	list, err := listOf("anyOf", v)
	if err != nil {
		return nil, err
	}
	branches := make([]schema, len(list))
	for i, v := range list {
		if branches[i], err = parseSchema(v); err != nil {
			return nil, err
		}
	}
	return func(v value) bool {
		return slices.ContainsFunc(branches, func(b schema) bool { return b(v) })
	}, nil
}

// itemsKeyword checks every element of an array.
func itemsKeyword(v value) (schema, error) {
	inner, err := parseSchema(v)
	return func(v value) bool {
		if v.Type != bsoncore.TypeArray {
			return true
		}
		for e := range fields(v.Data) {
			if !inner(e.Value()) {
				return false
			}
		}
		return true
	}, err
}
