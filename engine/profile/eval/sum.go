package eval

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// sum is a setting's profile of one user, as its products with the candidates. As in
// [profile.Config.Fold], a decay moves only the scale.
type sum struct {
	*Setting
	scores []float64 // times scale: the decayed sum's product with each candidate
	space  Vectors   // nil where the sum's length is not needed
	vector []float64 // times scale: the decayed sum
	unit   float64   // makes the scores cosines, 0 where the sum has no direction; NaN: to be computed
	scale  float64
	weight float64 // what the events weigh together: no score is above it
	last   engine.Millis
	none   bool // nothing is folded yet
}

const (
	// underflow is the scale at which the scores are written out.
	underflow = 1e-100
	// vanished is the length below which a sum has no direction.
	vanished = 1e-12
)

// newSum returns an empty sum. space is nil where the sum's length is not needed.
func newSum(s *Setting, space Vectors, candidates int) *sum {
	a := &sum{Setting: s, space: space, scores: make([]float64, candidates)}
	if space != nil {
		a.vector = make([]float64, space.Dimensions())
	}
	a.reset()
	return a
}

// reset makes the sum that of a user without events.
func (a *sum) reset() {
	clear(a.scores)
	clear(a.vector)
	a.scale, a.weight, a.none = 1, 0, true
}

// fold adds an event whose row of similarities is given.
func (a *sum) fold(e *event, row []float64) {
	decay := 1.0
	if !a.none {
		decay = a.decay(e.at)
	}
	a.none, a.last = false, e.at
	w := a.Weights[e.kind]
	a.weight = a.weight*decay + math.Abs(w)
	a.scale *= decay
	if a.scale < underflow {
		floats.Scale(a.scale, a.scores)
		floats.Scale(a.scale, a.vector)
		a.scale = 1
	}
	floats.AddScaled(a.scores, w/a.scale, row)
	if a.space == nil {
		return
	}
	a.unit = math.NaN()
	a.space.Add(a.vector, w/a.scale, e.thing)
	if a.History == profile.UnitMass {
		if m := a.length(); m > vanished {
			a.scale /= m
			a.weight /= m
		}
	}
}

// decay returns what the sum keeps until an instant.
func (a *sum) decay(at engine.Millis) float64 {
	if at == a.last {
		return 1 // also where lambda is infinite
	}
	return math.Exp(-a.Lambda * a.last.Days(at))
}

// length of the decayed sum.
func (a *sum) length() float64 { return a.scale * floats.Norm(a.vector, 2) }

// tolerance is the difference of two scores that are equal.
func (a *sum) tolerance() float64 { return tie * a.weight / a.scale }

// toUnit returns the factor that makes scores cosines, 0 where the sum has no direction.
func (a *sum) toUnit() float64 {
	if math.IsNaN(a.unit) {
		a.unit = 0
		if length := a.length(); length > vanished*a.weight {
			a.unit = a.scale / length
		}
	}
	return a.unit
}
