package profile

import (
	"math"

	"keyfold/engine"

	"gonum.org/v1/gonum/floats"
)

// accumulator holds a sum as scale x vector, so that decaying it is one
// multiplication instead of one per component.
//
// In Mass the sum is s itself and is normalised at the end. In UnitMass it is
// the unit vector after each step: its new length follows from a dot product,
// |d u + w x|^2 = d^2 + 2 d w u.x + w^2, and is divided out of the scale.
type accumulator struct {
	vector  []float64
	owned   bool // vector is not the profile's or an event's
	scale   float64
	updated engine.Millis
	mass    float64 // UnitMass: |s| of the last step
	weight  float64 // Mass: the decayed sizes of the weights that went into the sum
	unit    bool
}

// accumulate starts from s, or from the first step where s is empty, and
// returns the steps still to take.
func (c Config) accumulate(s State, steps []Step) (*accumulator, []Step) {
	a := &accumulator{unit: c.History == UnitMass}
	if s.Vector == nil {
		first := steps[0]
		a.vector = first.Vector
		if first.Weight < 0 {
			a.vector, a.owned = floats.ScaleTo(make([]float64, len(first.Vector)), -1, first.Vector), true
		}
		size := math.Abs(first.Weight)
		a.scale, a.mass, a.weight, a.updated = size, size, size, first.At
		steps = steps[1:]
	} else {
		a.vector = s.Vector
		a.scale, a.mass, a.weight, a.updated = s.Mass, s.Mass, s.Mass, s.Updated
	}
	if a.unit {
		a.scale = 1
	}
	return a, steps
}

// step folds one event in. It returns false, having changed nothing, where only
// the law itself can: at a unit sum that cancels.
func (a *accumulator) step(c Config, e *Step) bool {
	decay, add, updated := 1.0, e.Weight, e.At
	if e.At >= a.updated {
		decay = c.Decay(a.updated.Days(e.At))
	} else {
		add, updated = e.Weight*c.Decay(e.At.Days(a.updated)), a.updated
	}
	shrink := 1.0
	if a.unit {
		square := decay*decay + 2*decay*add*a.scale*floats.Dot(a.vector, e.Vector) + add*add
		if size := decay + math.Abs(add); square < 1e-4*size*size {
			return false
		}
		a.mass = math.Sqrt(square)
		shrink = 1 / a.mass
	}
	a.updated = updated
	a.weight = a.weight*decay + math.Abs(add)
	a.scale *= decay
	a.add(add, e.Vector)
	a.scale *= shrink
	return true
}

// add adds w x to the sum. The first time it writes into a vector of its own:
// copying the profile first would be one more pass over it.
func (a *accumulator) add(w float64, x []float64) {
	into := a.vector
	if !a.owned {
		into, a.owned = make([]float64, len(a.vector)), true
	}
	if a.scale < underflow {
		floats.ScaleTo(into, a.scale, a.vector)
		a.vector, a.scale = into, 1
	}
	floats.AddScaledTo(into, a.vector, w/a.scale, x)
	a.vector = into
}

// state normalises the sum. It returns false where cancellation ate its digits.
func (a *accumulator) state() (State, bool) {
	norm := length(a.vector)
	if !a.unit {
		a.mass = a.scale * norm
		if !(a.mass >= vanished && a.mass >= cancelled*a.weight) {
			return State{}, false
		}
	}
	if a.owned {
		floats.Scale(1/norm, a.vector)
	} else {
		a.vector = floats.ScaleTo(make([]float64, len(a.vector)), 1/norm, a.vector)
	}
	return State{Vector: a.vector, Mass: a.mass, Updated: a.updated}, true
}
