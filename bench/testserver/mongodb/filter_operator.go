package mongotest

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

func (f *filter) parseOperator(field, operator string, v value, sure bool) (node, error) {
	at := parsePath(field)
	switch operator {
	case "$eq":
		f.note(sure, field, true, v)
		return leaf{at, equals(v)}, nil
	case "$ne":
		return not{leaf{at, equals(v)}}, nil
	case "$gt", "$gte", "$lt", "$lte":
		return leaf{at, ordered(operator, v)}, nil
	case "$in", "$nin":
		values, err := listOf(operator, v)
		if err != nil {
			return nil, err
		}
		if operator == "$nin" {
			return not{leaf{at, oneOf(values)}}, nil
		}
		f.note(sure, field, false, values...)
		return leaf{at, oneOf(values)}, nil
	case "$exists":
		n := leaf{at, func(v value) bool { return v.Type != 0 }}
		if !truthy(v) {
			return not{n}, nil
		}
		return n, nil
	case "$type":
		test, err := typeTest(v)
		return leaf{at, test}, err
	case "$not":
		if !isOperators(v) {
			return nil, fail(codeBadValue, "$not needs a document of operators")
		}
		n, err := f.parseField(field, v, false)
		return not{n}, err
	default:
		return nil, fail(codeBadValue, "unknown operator: %s", operator)
	}
}

func listOf(operator string, v value) ([]value, error) {
	list, ok := v.ArrayOK()
	if !ok {
		return nil, fail(codeBadValue, "%s needs an array", operator)
	}
	var values []value
	for e := range fields(list) {
		v := e.Value()
		if v.Type == bsoncore.TypeRegex {
			return nil, fail(codeBadValue, "mongotest: regular expressions are not supported")
		}
		if isOperators(v) {
			return nil, fail(codeBadValue, "cannot nest $ under %s", operator)
		}
		values = append(values, v)
	}
	return values, nil
}

// equals accepts what compares equal; null equals an absent field.
func equals(want value) func(value) bool {
	return func(v value) bool { return compare(v, want) == 0 }
}

// few is up to how many values a list is compared one by one: less work than
// making a key.
const few = 4

// oneOf accepts what equals one of the values.
func oneOf(values []value) func(value) bool {
	if len(values) <= few {
		return func(v value) bool {
			return slices.ContainsFunc(values, func(want value) bool { return compare(v, want) == 0 })
		}
	}
	set := make(map[string]struct{}, len(values))
	for _, v := range values {
		set[string(appendKey(nil, v))] = struct{}{}
	}
	return func(v value) bool {
		var room [64]byte
		_, found := set[string(appendKey(room[:0], v))]
		return found
	}
}

// ordered accepts values of the operand's own class on the right side of it:
// range operators never match across types. NaN is no less and no more than a
// number.
func ordered(operator string, want value) func(value) bool {
	kind := classOf(want.Type)
	orEqual := operator == "$gte" || operator == "$lte"
	sign := 1
	if operator == "$lt" || operator == "$lte" {
		sign = -1
	}
	return func(v value) bool {
		if classOf(v.Type) != kind {
			return false
		}
		if kind == classNumber {
			a, b := numberOf(v).isNaN(), numberOf(want).isNaN()
			if a || b {
				return orEqual && a && b
			}
		}
		d := compare(v, want) * sign
		return d > 0 || orEqual && d == 0
	}
}

func truthy(v value) bool {
	if b, ok := v.BooleanOK(); ok {
		return b
	}
	if classOf(v.Type) == classNumber {
		return compareNumbers(numberOf(v), number{exact: true}) != 0
	}
	return classOf(v.Type) != classNull
}

// typeAliases are the names of types in $type and bsonType.
var typeAliases = map[string][]bsoncore.Type{
	"double": {bsoncore.TypeDouble}, "string": {bsoncore.TypeString},
	"object": {bsoncore.TypeEmbeddedDocument}, "array": {bsoncore.TypeArray},
	"binData": {bsoncore.TypeBinary}, "undefined": {bsoncore.TypeUndefined},
	"objectId": {bsoncore.TypeObjectID}, "bool": {bsoncore.TypeBoolean},
	"date": {bsoncore.TypeDateTime}, "null": {bsoncore.TypeNull}, "regex": {bsoncore.TypeRegex},
	"dbPointer": {bsoncore.TypeDBPointer}, "javascript": {bsoncore.TypeJavaScript},
	"symbol": {bsoncore.TypeSymbol}, "javascriptWithScope": {bsoncore.TypeCodeWithScope},
	"int": {bsoncore.TypeInt32}, "timestamp": {bsoncore.TypeTimestamp}, "long": {bsoncore.TypeInt64},
	"decimal": {bsoncore.TypeDecimal128}, "minKey": {bsoncore.TypeMinKey}, "maxKey": {bsoncore.TypeMaxKey},
	"number": {bsoncore.TypeDouble, bsoncore.TypeInt32, bsoncore.TypeInt64, bsoncore.TypeDecimal128},
}

func typeTest(v value) (func(value) bool, error) {
	types, err := typesOf(v)
	if err != nil {
		return nil, err
	}
	return func(v value) bool { return slices.Contains(types, v.Type) }, nil
}

// typesOf reads a type's name or number, or an array of them.
func typesOf(v value) ([]bsoncore.Type, error) {
	if list, ok := v.ArrayOK(); ok {
		var types []bsoncore.Type
		for e := range fields(list) {
			more, err := typesOf(e.Value())
			if err != nil {
				return nil, err
			}
			types = append(types, more...)
		}
		return types, nil
	}
	if name, ok := v.StringValueOK(); ok {
		types, known := typeAliases[name]
		if !known {
			return nil, fail(codeBadValue, "Unknown type name alias: %s", name)
		}
		return types, nil
	}
	code, ok := v.AsInt64OK()
	if !ok || code < -1 || code == 0 || code > 127 {
		return nil, fail(codeBadValue, "Invalid numerical type code: %s", v)
	}
	return []bsoncore.Type{bsoncore.Type(byte(code))}, nil
}
