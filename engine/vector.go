package engine

import (
	"errors"
	"fmt"
	"math"
)

// Unit turns an external vector into the unit vector that is folded: the
// float32 components are normalised in float64, so that a vector out of a
// cache of float32 equals the one that was put in.
//
// Reasons (all permanent): wrong_dimensions, not_finite, zero_vector.
func Unit(raw []float32, dimensions int) ([]float64, error) {
	if len(raw) != dimensions {
		return nil, PermanentError("wrong_dimensions",
			fmt.Errorf("vector has %d components, expected %d", len(raw), dimensions))
	}
	norm, err := Norm(raw)
	if err != nil {
		return nil, err
	}
	inverse := 1 / norm
	unit := make([]float64, len(raw))
	for i, c := range raw {
		unit[i] = float64(c) * inverse
	}
	return unit, nil
}

// Norm returns the length of an external vector, or why it has no direction.
//
// Reasons (all permanent): not_finite, zero_vector.
func Norm(raw []float32) (float64, error) {
	var sum float64
	for _, c := range raw {
		sum += float64(c) * float64(c)
	}
	switch {
	case math.IsNaN(sum) || math.IsInf(sum, 0):
		return 0, PermanentError("not_finite", errors.New("vector holds NaN or Inf"))
	case sum == 0:
		return 0, PermanentError("zero_vector", errors.New("vector has length zero"))
	}
	return math.Sqrt(sum), nil
}
