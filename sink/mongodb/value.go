package mongodb

import (
	"errors"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine"
)

// Documents may have been written by other programs, whose libraries choose the
// types of numbers by themselves: whatever holds the value exactly will do.

// whole returns the whole number that v is.
func whole(v bsoncore.Value) (int64, bool) {
	switch v.Type {
	case bsoncore.TypeInt32:
		n, ok := v.Int32OK()
		return int64(n), ok
	case bsoncore.TypeInt64:
		return v.Int64OK()
	case bsoncore.TypeDouble:
		f, ok := v.DoubleOK()
		return int64(f), ok && f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64
	default:
		return 0, false
	}
}

// realNumber returns the finite number that v is.
func realNumber(v bsoncore.Value) (float64, bool) {
	switch v.Type {
	case bsoncore.TypeDouble:
		f, ok := v.DoubleOK()
		return f, ok && finite(math.Float64bits(f))
	case bsoncore.TypeInt32:
		n, ok := v.Int32OK()
		return float64(n), ok
	case bsoncore.TypeInt64:
		n, ok := v.Int64OK()
		f := float64(n)
		return f, ok && f < math.MaxInt64 && int64(f) == n
	default:
		return 0, false
	}
}

// anyNumber returns the number that v is, which may be none: NaN.
func anyNumber(v bsoncore.Value) (float64, bool) {
	if f, ok := v.DoubleOK(); ok {
		return f, true
	}
	return realNumber(v)
}

// expected returns the error for a value of another type or range.
func expected(what string, v bsoncore.Value) error {
	return fmt.Errorf("is a BSON %s, expected %s", v.Type, what)
}

func readInt32(v bsoncore.Value, into *int32) error {
	n, ok := whole(v)
	if !ok || int64(int32(n)) != n {
		return expected("a whole number of 32 bits", v)
	}
	*into = int32(n)
	return nil
}

func readInt64(v bsoncore.Value, into *int64) error {
	n, ok := whole(v)
	if !ok {
		return expected("a whole number", v)
	}
	*into = n
	return nil
}

func readReal(v bsoncore.Value, into *float64) error {
	f, ok := realNumber(v)
	if !ok {
		return expected("a finite number", v)
	}
	*into = f
	return nil
}

func readDate(v bsoncore.Value, into *engine.Millis) error {
	ms, ok := v.DateTimeOK()
	if !ok {
		return expected("a date", v)
	}
	*into = engine.Millis(ms)
	return nil
}

func readString[S ~string](v bsoncore.Value, into *S) error {
	s, ok := v.StringValueOK()
	if !ok {
		return expected("a string", v)
	}
	*into = S(s)
	return nil
}

// genericBinary is the subtype of bytes without a meaning.
const genericBinary = 0x00

// binaryOf returns the bytes of v, which alias it.
func binaryOf(v bsoncore.Value) ([]byte, error) {
	subtype, b, ok := v.BinaryOK()
	if !ok || subtype != genericBinary {
		return nil, expected("a binary of subtype 0", v)
	}
	return b, nil
}

// errMalformed: the bytes are no BSON document.
var errMalformed = errors.New("is no well-formed BSON document")

// eachField calls visit for every field of doc, but for those that are null:
// they count as absent. The key is valid during the call only. It stops at the first error, and names the field in it.
func eachField(doc []byte, visit func(key []byte, v bsoncore.Value) error) error {
	if len(doc) < shortestArray {
		return errMalformed
	}
	for rest := doc[lengthBytes : len(doc)-1]; len(rest) > 0; {
		element, after, ok := bsoncore.ReadElement(rest)
		if !ok {
			return errMalformed
		}
		rest = after
		v := element.Value()
		if v.Type == bsoncore.TypeNull {
			continue
		}
		if err := visit(element.KeyBytes(), v); err != nil {
			return fmt.Errorf("%s %w", element.Key(), err)
		}
	}
	return nil
}
