package mongodb

import (
	"encoding/binary"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// component is what vectors are made of.
type component interface{ float32 | float64 }

// vectorTemplate is a BSON array of n doubles, all zero. A BSON array is a
// document whose keys are "0", "1", ...; the elements of keys with equally many
// digits lie at equal distances.
// Source: bsonspec.org, version 1.1.
type vectorTemplate []byte

// Bytes of an element around its key, and before the first element.
const (
	doubleBytes   = 8
	elementBytes  = 1 + 1 + doubleBytes // type, the key's end, value
	lengthBytes   = 4
	shortestArray = lengthBytes + 1
)

func newVectorTemplate(n int) vectorTemplate {
	start, b := bsoncore.AppendArrayStart(nil)
	for i := range n {
		b = bsoncore.AppendDoubleElement(b, strconv.Itoa(i), 0)
	}
	return vectorTemplate(endDocument(b, start))
}

// appendVector appends v, which has as many components as the template.
func appendVector[F component](dst []byte, t vectorTemplate, v []F) []byte {
	at := len(dst) + lengthBytes
	dst = append(dst, t...)
	for i, digits, end := 0, 1, 10; i < len(v); digits, end = digits+1, end*10 {
		for end := min(end, len(v)); i < end; i++ {
			at += digits + elementBytes
			binary.LittleEndian.PutUint64(dst[at-doubleBytes:at], math.Float64bits(float64(v[i])))
		}
	}
	return dst
}

// read fills v from an array that has exactly the template's keys and types,
// and only finite values; ok is false for any other.
func (t vectorTemplate) read(array []byte, v []float64) (ok bool) {
	if len(array) != len(t) {
		return false
	}
	at := lengthBytes
	for i, digits, end := 0, 1, 10; i < len(v); digits, end = digits+1, end*10 {
		// Type, key and end of key are at most 7 bytes, and 8 of the value
		// follow: one comparison of a masked word sees all of them.
		mask := uint64(1)<<(8*(digits+2)) - 1
		for end := min(end, len(v)); i < end; i++ {
			found, due := binary.LittleEndian.Uint64(array[at:]), binary.LittleEndian.Uint64(t[at:])
			at += digits + elementBytes
			bits := binary.LittleEndian.Uint64(array[at-doubleBytes : at])
			if (found^due)&mask != 0 || !finite(bits) {
				return false
			}
			v[i] = math.Float64frombits(bits)
		}
	}
	return array[at] == 0
}

// exponent is the bits of a float64 that are all set in NaN and Inf.
const exponent = 0x7FF << 52

func finite(bits uint64) bool { return bits&exponent != exponent }

// endDocument closes a document or array. The library's version fails only for
// a start outside of the buffer.
func endDocument(dst []byte, start int32) []byte {
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, start, int32(len(dst))-start)
}
