package mongotest

import (
	"bytes"
	"cmp"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Short names for what nearly every function here takes. The zero value stands
// for a field that is absent.
type (
	document = bsoncore.Document
	value    = bsoncore.Value
)

// class is a type's place in the order in which values of different types
// compare. Numbers compare by value, and all others by their bytes: keyfold
// compares no documents and arrays.
// Source: MongoDB manual, "Comparison/Sort Order".
type class uint8

const (
	classNull class = iota + 1 // null and absent
	classNumber
	classString
	classDocument
	classArray
	classBinary
	classObjectID
	classBoolean
	classDate
	classOther
)

var classes = [256]class{
	0: classNull, bsoncore.TypeNull: classNull,
	bsoncore.TypeInt32: classNumber, bsoncore.TypeInt64: classNumber, bsoncore.TypeDouble: classNumber,
	bsoncore.TypeString: classString, bsoncore.TypeEmbeddedDocument: classDocument, bsoncore.TypeArray: classArray,
	bsoncore.TypeBinary: classBinary, bsoncore.TypeObjectID: classObjectID, bsoncore.TypeBoolean: classBoolean,
	bsoncore.TypeDateTime: classDate,
}

func classOf(t bsoncore.Type) class { return cmp.Or(classes[t], classOther) }

// wholeOf returns a numeric value as a whole number, where it is one that fits: 5.0 is
// the same number as 5, so that both have one index key.
func wholeOf(v value) (int64, bool) {
	if v.Type != bsoncore.TypeDouble {
		return v.AsInt64(), true
	}
	f := v.Double()
	return int64(f), f == math.Trunc(f) && f >= -1<<63 && f < 1<<63
}

// compareNumbers orders NaN before every other number and equal to itself.
func compareNumbers(a, b value) int {
	wholeA, exactA := wholeOf(a)
	wholeB, exactB := wholeOf(b)
	if exactA && exactB {
		return cmp.Compare(wholeA, wholeB)
	}
	order := cmp.Compare(a.AsFloat64(), b.AsFloat64())
	switch {
	case order != 0 || exactA == exactB:
		return order
	case exactA: // one of the largest, which become 2^63 as doubles
		return -1
	default:
		return 1
	}
}

// compare orders two values as a server does: by class, then by value.
func compare(a, b value) int {
	ca, cb := classOf(a.Type), classOf(b.Type)
	switch {
	case ca != cb:
		return cmp.Compare(ca, cb)
	case ca == classNumber:
		return compareNumbers(a, b)
	case ca == classDate:
		return cmp.Compare(a.DateTime(), b.DateTime())
	case ca == classString:
		return bytes.Compare(a.Data[4:], b.Data[4:]) // without the length
	case ca == classNull:
		return 0
	default:
		return bytes.Compare(a.Data, b.Data)
	}
}

// scan reads the elements of a document or array in their order. It ends at the
// first one that is malformed.
type scan struct{ rest []byte }

func newScan(doc []byte) scan {
	if len(doc) < 5 {
		return scan{}
	}
	return scan{rest: doc[4 : len(doc)-1]}
}

func (s *scan) next() (bsoncore.Element, bool) {
	element, rest, ok := bsoncore.ReadElement(s.rest)
	s.rest = rest
	return element, ok
}

// fields yields the elements of a document or array in their order.
func fields(doc []byte) iter.Seq[bsoncore.Element] {
	return func(yield func(bsoncore.Element) bool) {
		s := newScan(doc)
		for e, ok := s.next(); ok && yield(e); e, ok = s.next() {
		}
	}
}

// lookup returns a top-level field, or the zero value.
func lookup(doc []byte, key string) value {
	for e := range fields(doc) {
		if string(e.KeyBytes()) == key {
			return e.Value()
		}
	}
	return value{}
}

// appendKey appends a form of v such that two values have equal forms exactly
// where compare finds them equal.
func appendKey(dst []byte, v value) []byte {
	c := classOf(v.Type)
	dst = append(dst, byte(c))
	if c == classNull {
		return dst
	}
	if c != classNumber {
		return append(dst, v.Data...)
	}
	if whole, exact := wholeOf(v); exact {
		return bsoncore.AppendInt64(append(dst, 'i'), whole)
	}
	return bsoncore.AppendDouble(append(dst, 'd'), v.Double())
}
