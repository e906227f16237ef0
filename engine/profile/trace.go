package profile

// Trace is what each step of a fold counts in its sum.
type Trace struct {
	// Coefficients are aligned with the steps. Mass x Vector of End is the sum of each
	// step's coefficient x its vector and of OfStart x Mass x Vector of the start.
	Coefficients []float64
	OfStart      float64
	End          State
}

// Trace folds the steps, in their order, into s and tells what each counts in the end.
//
// Formula: a step's coefficient is its weight (decayed where it is late) times the share
// of the sum that each later step keeps: the decay in [Mass], the decay over the sum's
// length in [UnitMass].
func (c Config) Trace(s State, steps []Step) Trace {
	t := Trace{Coefficients: make([]float64, len(steps)), OfStart: 1}
	kept := make([]float64, len(steps)) // of the sum before the step
	if c.History == UnitMass {
		t.End = c.traceUnit(s, steps, t.Coefficients, kept)
	} else {
		t.End = c.Fold(s, steps)
		sum := State{Vector: s.Vector, Mass: 1, Updated: s.Updated}
		for i, e := range steps {
			kept[i], t.Coefficients[i], sum.Updated = c.coefficients(sum, e)
			sum.Vector = e.Vector // there is a sum from now on
		}
	}
	for i := len(steps) - 1; i >= 0; i-- {
		t.Coefficients[i] *= t.OfStart
		t.OfStart *= kept[i]
	}
	return t
}

// traceUnit folds one step at a time, as a step's share depends on the length of the sum
// before it.
func (c Config) traceUnit(s State, steps []Step, coefficients, kept []float64) State {
	sum := s.Mass // the length that s.Vector has in it
	for i, e := range steps {
		keep, add, _ := c.coefficients(s, e)
		if s = c.FoldOne(s, e); s.Mass == 0 { // the sum vanished: the law keeps the vector before it
			kept[i] = 1
			continue
		}
		coefficients[i] = add
		if sum > 0 {
			kept[i] = keep / sum
		}
		sum = s.Mass
	}
	return s
}
