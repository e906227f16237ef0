package learned

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"
)

// Defaults of what is learned.
const (
	DefaultComponents = 128
	DefaultShare      = 0.5
)

// Weights returns what a product's unit vectors of its text and of what was learned are
// multiplied by, so that both together have unit length: share is that of the learned
// vector in the cosine of two products that have both. A product that lacks one has the
// other alone.
func Weights(text, learned bool, share float64) (ofText, ofLearned float64) {
	switch {
	case text && learned:
		return math.Sqrt(1 - share), math.Sqrt(share)
	case text:
		return 1, 0
	case learned:
		return 0, 1
	}
	return 0, 0
}

// Join returns a product's hybrid vector: the vector of its text, and behind it the learned
// one. One that has no direction or another length is taken for none; nil where there is
// neither.
func Join(text, learned []float32, dimensions, components int, share float64) []float32 {
	inverseText, inverseLearned := inverse(text, dimensions), inverse(learned, components)
	ofText, ofLearned := Weights(inverseText > 0, inverseLearned > 0, share)
	if ofText+ofLearned == 0 {
		return nil
	}
	joined := make([]float32, dimensions+components)
	scale(joined[:dimensions], text, ofText*inverseText)
	scale(joined[dimensions:], learned, ofLearned*inverseLearned)
	return joined
}

// Text returns the part of a hybrid vector that is of the text, nil where it has none or is
// of another length.
func Text(joined []float32, dimensions, components int) []float32 {
	if len(joined) != dimensions+components || inverse(joined[:dimensions], dimensions) == 0 {
		return nil
	}
	return joined[:dimensions]
}

// inverse returns 1/length, 0 for a vector that cannot be used.
func inverse(v []float32, size int) float64 {
	if len(v) != size {
		return 0
	}
	all := blas32.Vector{N: len(v), Data: v, Inc: 1}
	square := blas32.DDot(all, all)
	if !(square > 0) || math.IsInf(square, 0) {
		return 0
	}
	return 1 / math.Sqrt(square)
}

func scale(into, from []float32, by float64) {
	if by == 0 {
		return
	}
	for i, x := range from {
		into[i] = float32(float64(x) * by)
	}
}
