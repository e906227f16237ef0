package engine

import (
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
	var sum float64
	for _, c := range raw {
		sum += float64(c) * float64(c)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, PermanentError("not_finite", fmt.Errorf("vector holds NaN or Inf"))
	}
	if sum == 0 {
		return nil, PermanentError("zero_vector", fmt.Errorf("vector has length zero"))
	}
	inverse := 1 / math.Sqrt(sum)
	unit := make([]float64, len(raw))
	for i, c := range raw {
		unit[i] = float64(c) * inverse
	}
	return unit, nil
}
