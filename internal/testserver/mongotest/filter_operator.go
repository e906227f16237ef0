package mongotest

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

func (f *filter) parseOperator(field, operator string, v value) (func(value) bool, error) {
	switch operator {
	case "$gt", "$gte", "$lt", "$lte":
		return ordered(operator, v), nil
	case "$in":
		values, err := listOf(operator, v)
		f.note(field, false, values...)
		return oneOf(values), err
	case "$exists":
		exists := isTrue(v)
		return func(v value) bool { return (v.Type != 0) == exists }, nil
	default:
		return nil, fail(codeBadValue, "mongotest: operator %s is not supported", operator)
	}
}

func listOf(operator string, v value) ([]value, error) {
	list, ok := v.ArrayOK()
	if !ok {
		return nil, fail(codeBadValue, "%s needs an array", operator)
	}
	var values []value
	for e := range fields(list) {
		values = append(values, e.Value())
	}
	return values, nil
}

// oneOf accepts what equals one of the values; null equals an absent field.
func oneOf(values []value) func(value) bool {
	if len(values) == 1 {
		return func(v value) bool { return compare(v, values[0]) == 0 }
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

// ordered accepts values of the operand's own class on the operator's side of it, or equal to
// it with $gte and $lte: range operators never match across types.
func ordered(operator string, want value) func(value) bool {
	side, orEqual := 1, strings.HasSuffix(operator, "e")
	if strings.HasPrefix(operator, "$lt") {
		side = -1
	}
	return func(v value) bool {
		d := side * compare(v, want)
		return classOf(v.Type) == classOf(want.Type) && (d > 0 || d == 0 && orEqual)
	}
}

func isTrue(v value) bool {
	if b, ok := v.BooleanOK(); ok {
		return b
	}
	if classOf(v.Type) == classNumber {
		return v.AsFloat64() != 0
	}
	return classOf(v.Type) != classNull
}

// typeNames are the names of types in bsonType.
var typeNames = map[string]bsoncore.Type{
	"double": bsoncore.TypeDouble, "string": bsoncore.TypeString, "object": bsoncore.TypeEmbeddedDocument,
	"array": bsoncore.TypeArray, "binData": bsoncore.TypeBinary, "objectId": bsoncore.TypeObjectID,
	"bool": bsoncore.TypeBoolean, "date": bsoncore.TypeDateTime, "null": bsoncore.TypeNull,
	"int": bsoncore.TypeInt32, "long": bsoncore.TypeInt64,
}

// typesOf reads a type's name, or an array of them.
func typesOf(v value) ([]bsoncore.Type, error) {
	names := []value{v}
	if v.Type == bsoncore.TypeArray {
		var err error
		if names, err = listOf("bsonType", v); err != nil {
			return nil, err
		}
	}
	types := make([]bsoncore.Type, len(names))
	for i, v := range names {
		name, _ := v.StringValueOK()
		t, known := typeNames[name]
		if !known {
			return nil, fail(codeBadValue, "Unknown type name alias: %s", v)
		}
		types[i] = t
	}
	return types, nil
}
