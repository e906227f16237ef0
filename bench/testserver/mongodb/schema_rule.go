package mongotest

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

func requiredRule(v value) (func(value) bool, error) {
	names, err := namesOf(v)
	return func(v value) bool {
		missing := func(name string) bool { return lookup(v.Data, name).Type == 0 }
		return v.Type != bsoncore.TypeEmbeddedDocument || !slices.ContainsFunc(names, missing)
	}, err
}

func namesOf(v value) ([]string, error) {
	values, err := listOf("required", v)
	names := make([]string, len(values))
	for i, v := range values {
		name, ok := v.StringValueOK()
		if !ok {
			return nil, fail(codeTypeMismatch, "$jsonSchema keyword 'required' must be an array of strings")
		}
		names[i] = name
	}
	return names, err
}

func minimumRule(bound value) (func(value) bool, error) {
	if classOf(bound.Type) != classNumber {
		return nil, fail(codeTypeMismatch, "$jsonSchema keyword 'minimum' must be a number")
	}
	within := ordered("$gte", bound)
	return func(v value) bool { return classOf(v.Type) != classNumber || within(v) }, nil
}

func lengthRule(keyword string, v value) (func(value) bool, error) {
	limit, ok := v.AsInt64OK()
	if !ok || limit < 0 {
		return nil, fail(codeFailedToParse, "$jsonSchema keyword '%s' must be a whole number from 0", keyword)
	}
	atLeast := keyword == "minItems"
	return func(v value) bool {
		if v.Type != bsoncore.TypeArray {
			return true
		}
		n := int64(arrayLength(v.Data))
		return atLeast && n >= limit || !atLeast && n <= limit
	}, nil
}

func anyOfRule(v value) (func(value) bool, error) {
	list, err := listOf("anyOf", v)
	if err != nil {
		return nil, err
	}
	branches := make([]*schema, len(list))
	for i, v := range list {
		if branches[i], err = subSchema("anyOf", v); err != nil {
			return nil, err
		}
	}
	return func(v value) bool {
		return slices.ContainsFunc(branches, func(b *schema) bool { return b.accepts(v) })
	}, nil
}

func notRule(v value) (func(value) bool, error) {
	inner, err := subSchema("not", v)
	return func(v value) bool { return !inner.accepts(v) }, err
}

// itemsRule checks every element of an array. Thousands of doubles of one type
// are the case that counts: it is decided without decoding them.
func itemsRule(v value) (func(value) bool, error) {
	inner, err := subSchema("items", v)
	if err != nil {
		return nil, err
	}
	var only bsoncore.Type
	if len(inner.rules) == 1 && len(inner.properties) == 0 && inner.rules[0].keyword == "bsonType" {
		if types, err := typesOf(inner.rules[0].operand); err == nil && len(types) == 1 {
			only = types[0]
		}
	}
	return func(v value) bool {
		if v.Type != bsoncore.TypeArray {
			return true
		}
		if only == bsoncore.TypeDouble {
			_, all := doubles(v.Data)
			return all
		}
		for e := range fields(v.Data) {
			if !inner.accepts(e.Value()) {
				return false
			}
		}
		return true
	}, nil
}

// doubles returns how many elements an array begins with that are doubles, and
// whether these are all.
func doubles(array []byte) (n int, all bool) {
	if len(array) < 5 {
		return 0, true
	}
	rest := array[4 : len(array)-1]
	for len(rest) > 0 && bsoncore.Type(rest[0]) == bsoncore.TypeDouble {
		i := 1
		for i < len(rest) && rest[i] != 0 {
			i++
		}
		if i+9 > len(rest) {
			return n, false
		}
		rest = rest[i+9:]
		n++
	}
	return n, len(rest) == 0
}

func arrayLength(array []byte) int {
	n, all := doubles(array)
	if all {
		return n
	}
	n = 0
	for range fields(array) {
		n++
	}
	return n
}
