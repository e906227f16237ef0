package mongotest

import "go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

func requiredRule(v value) (func(value) bool, error) {
	names, err := namesOf(v)
	return func(v value) bool {
		return v.Type != bsoncore.TypeEmbeddedDocument || len(missing(names, v.Data)) == 0
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

// missing returns the names that doc has no field of.
func missing(names []string, doc document) []string {
	var absent []string
	for _, name := range names {
		if lookup(doc, name).Type == 0 {
			absent = append(absent, name)
		}
	}
	return absent
}

func boundRule(keyword string, bound value) (func(value) bool, error) {
	if classOf(bound.Type) != classNumber {
		return nil, fail(codeTypeMismatch, "$jsonSchema keyword '%s' must be a number", keyword)
	}
	operator := "$gte"
	if keyword == "maximum" {
		operator = "$lte"
	}
	within := ordered(operator, bound)
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

func branchRule(keyword string, v value) (func(value) bool, error) {
	list, err := listOf(keyword, v)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fail(codeBadValue, "$jsonSchema keyword '%s' must be a non-empty array", keyword)
	}
	branches := make([]*schema, len(list))
	for i, v := range list {
		if branches[i], err = subSchema(keyword, v); err != nil {
			return nil, err
		}
	}
	return func(v value) bool {
		n := 0
		for _, b := range branches {
			n += flag(b.accepts(v))
		}
		switch keyword {
		case "oneOf":
			return n == 1
		case "anyOf":
			return n > 0
		default:
			return n == len(branches)
		}
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
		if types, err := typesOf(inner.rules[0].specifiedAs); err == nil && len(types) == 1 {
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
