package mongodb

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine/profile"
)

// vectorOf reads a vector of either [Format]. An array that keyfold wrote has the
// template's form; any other is read element by element. The vector is new, and may be of
// another length than the template's.
func (t vectorTemplate) vectorOf(v bsoncore.Value, dimensions int) ([]float64, error) {
	if v.Type == bsoncore.TypeBinary {
		return binaryVector(v)
	}
	array, ok := v.ArrayOK()
	if !ok {
		return nil, expected("an array", v)
	}
	if vector := make([]float64, dimensions); t.read(array, vector) {
		return vector, nil
	}
	return scanVector(array, realNumber)
}

// scanVector reads an array of what number takes for one. The keys are passed over:
// the order of the elements is what counts, and servers do not look at array
// keys either.
func scanVector(array []byte, number func(bsoncore.Value) (float64, bool)) ([]float64, error) {
	vector := []float64{}
	for rest := array[lengthBytes : len(array)-1]; len(rest) > 0; {
		element, after, ok := bsoncore.ReadElement(rest)
		if !ok {
			return nil, fmt.Errorf("is malformed at component %d", len(vector))
		}
		rest = after
		v := element.Value()
		x, ok := number(v)
		if !ok {
			return nil, fmt.Errorf("has a component %d that is a BSON %s, expected a finite number", len(vector), v.Type)
		}
		if len(vector) == profile.MaxDimensions {
			return nil, fmt.Errorf("has more than %d components", profile.MaxDimensions)
		}
		vector = append(vector, x)
	}
	return vector, nil
}
