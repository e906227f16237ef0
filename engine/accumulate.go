package engine

import (
	"math"

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
	scale   float64
	updated Millis
	mass    float64 // UnitMass: |s| of the last step
	weight  float64 // Mass: the decayed weights that went into the sum
	steps   []Step  // all of them, for the step-by-step fallback
	unit    bool
}

// accumulate starts from s, or from the first step where s is empty, and
// returns the steps still to take.
func (c Config) accumulate(s State, steps []Step) (*accumulator, []Step) {
	a := &accumulator{steps: steps, unit: c.History == UnitMass}
	if s.Vector == nil {
		first := steps[0]
		a.vector = append([]float64(nil), first.Vector...)
		a.scale, a.mass, a.weight, a.updated = first.Weight, first.Weight, first.Weight, first.At
		steps = steps[1:]
	} else {
		a.vector = append([]float64(nil), s.Vector...)
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
		if square < 1e-4*(decay+add)*(decay+add) {
			return false
		}
		a.mass = math.Sqrt(square)
		shrink = 1 / a.mass
	}
	a.updated = updated
	a.weight = a.weight*decay + add
	a.scale *= decay
	if a.scale < underflow {
		floats.Scale(a.scale, a.vector)
		a.scale = 1
	}
	floats.AddScaled(a.vector, add/a.scale, e.Vector)
	a.scale *= shrink
	return true
}

// lost reports whether cancellation ate the sum's digits.
func (a *accumulator) lost() bool {
	if a.unit {
		return false
	}
	sum := a.scale * length(a.vector)
	return !(sum >= vanished && sum >= cancelled*a.weight)
}

// state normalises the sum in place.
func (a *accumulator) state() State {
	norm := length(a.vector)
	if !a.unit {
		a.mass = a.scale * norm
	}
	floats.Scale(1/norm, a.vector)
	return State{Vector: a.vector, Mass: a.mass, Updated: a.updated}
}
