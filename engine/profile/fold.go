package profile

import (
	"math"

	"keyfold/engine"

	"gonum.org/v1/gonum/floats"
)

// State is what a fold reads and makes of a profile: the unit vector u, the
// mass m it was normalised from, and the time T of the newest event.
type State struct {
	Vector  []float64 // nil before the first event
	Mass    float64
	Updated engine.Millis
}

// Step is one event of a fold: its unit vector, its weight and its time.
type Step struct {
	Vector []float64
	Weight float64
	At     engine.Millis
}

const (
	// vanished is the length below which a sum has no direction.
	vanished = 1e-12
	// cancelled is the share of the decayed weights below which a sum has lost
	// its digits to cancellation; such a batch is folded step by step.
	cancelled = 1e-6
	// underflow is the scale at which the accumulator is written out.
	underflow = 1e-100
)

// Decay returns exp(-lambda x days).
func (c Config) Decay(days float64) float64 { return math.Exp(-c.Lambda * days) }

// FoldOne folds one event by the law itself, without shortcuts; it is the
// reference for Fold and what Fold falls back to. The returned vector is new,
// but for a vanished sum, which keeps the old one.
//
// Formula: s = decay(T -> t) m u + w x for t >= T, s = m u + decay(t -> T) w x
// for a late event, u' = s/|s|, m' = |s|: an exponentially decayed weighted sum
// with a half-life of ln 2 / lambda days.
func (c Config) FoldOne(s State, e Step) State {
	keep, add, updated := c.coefficients(s, e)
	sum := make([]float64, len(e.Vector))
	if s.Vector != nil {
		floats.ScaleTo(sum, keep, s.Vector)
	}
	floats.AddScaled(sum, add, e.Vector)
	mass := length(sum)
	if mass < vanished {
		return State{Vector: s.Vector, Mass: 0, Updated: updated}
	}
	floats.Scale(1/mass, sum)
	return State{Vector: sum, Mass: mass, Updated: updated}
}

// coefficients returns what the profile's and the event's unit vector count in
// the sum, and the time of the newest event after it.
func (c Config) coefficients(s State, e Step) (keep, add float64, updated engine.Millis) {
	if s.Vector == nil {
		return 0, e.Weight, e.At
	}
	mass := s.Mass
	if c.History == UnitMass {
		mass = 1
	}
	if e.At >= s.Updated {
		return mass * c.Decay(s.Updated.Days(e.At)), e.Weight, e.At
	}
	return mass, e.Weight * c.Decay(e.At.Days(s.Updated)), s.Updated
}

// Fold folds the steps, in their order, into s and equals repeated FoldOne
// within 1e-9 per component wherever the sum has not cancelled. It costs one
// multiply-add per component and event (in UnitMass a dot product too), as the
// decay moves a scalar and the vector is normalised once. The returned vector
// is new; steps and s are only read.
func (c Config) Fold(s State, steps []Step) State {
	if len(steps) == 0 {
		return s
	}
	a, rest := c.accumulate(s, steps)
	for i := range rest {
		if !a.step(c, &rest[i]) {
			// A unit sum is always near length 1: it has a state.
			reached, _ := a.state()
			return c.foldEach(reached, rest[i:])
		}
	}
	if folded, ok := a.state(); ok {
		return folded
	}
	return c.foldEach(s, steps)
}

func (c Config) foldEach(s State, steps []Step) State {
	for _, e := range steps {
		s = c.FoldOne(s, e)
	}
	return s
}

func length(v []float64) float64 { return math.Sqrt(floats.Dot(v, v)) }
