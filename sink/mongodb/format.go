package mongodb

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine/profile"
)

// Format is the form in which profiles' vectors are written. Both are read.
type Format string

const (
	// Array is a BSON array of doubles, which every program reads.
	Array Format = "array"
	// Binary is a BSON binary of subtype 0: the components' doubles one after the other,
	// little-endian. It holds the same values without the keys of an array.
	Binary Format = "binary"
)

// appendElement appends a vector as the element of a document.
func (c *codec) appendElement(dst []byte, field string, v []float64) []byte {
	if c.format != Binary {
		return appendVector(bsoncore.AppendHeader(dst, bsoncore.TypeArray, field), c.vector, v)
	}
	dst = bsoncore.AppendHeader(dst, bsoncore.TypeBinary, field)
	dst = append(bsoncore.AppendInt32(dst, int32(doubleBytes*len(v))), genericBinary)
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

// binaryVector returns the components of a [Binary] vector.
func binaryVector(v bsoncore.Value) ([]float64, error) {
	b, err := binaryOf(v)
	switch {
	case err != nil:
		return nil, err
	case len(b)%doubleBytes != 0 || len(b) == 0:
		return nil, fmt.Errorf("has %d bytes, expected %d for each component", len(b), doubleBytes)
	case len(b) > doubleBytes*profile.MaxDimensions:
		return nil, fmt.Errorf("has more than %d components", profile.MaxDimensions)
	}
	vector := make([]float64, len(b)/doubleBytes)
	for i := range vector {
		bits := binary.LittleEndian.Uint64(b[doubleBytes*i:])
		if !finite(bits) {
			return nil, fmt.Errorf("has a component %d that is %v, expected a finite number", i, math.Float64frombits(bits))
		}
		vector[i] = math.Float64frombits(bits)
	}
	return vector, nil
}
