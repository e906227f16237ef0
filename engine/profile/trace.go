package profile

// Trace is what each step of a fold counts in its sum.
type Trace struct {
	// Coefficients are aligned with the steps. Mass x Vector of End is the sum of each
	// step's coefficient x its vector and of OfStart x Mass x Vector of the start.
	Coefficients []float64
	OfStart      float64
	End          State
}

// Trace folds the steps, in their order, into s one at a time ([Config.FoldOne]) and
// tells what each counts in the end.
//
// Formula: a step's coefficient is its weight (decayed where it is late) times the share
// of the sum that each later step keeps: the decay in [Mass], the decay over the sum's
// length in [UnitMass].
func (c Config) Trace(s State, steps []Step) Trace {
	t := Trace{Coefficients: make([]float64, len(steps)), OfStart: 1}
	kept := make([]float64, len(steps)) // of the sum before the step
	sum := s.Mass                       // the length that s.Vector has in it
	for i, e := range steps {
		keep, add, _ := c.coefficients(s, e)
		s = c.FoldOne(s, e)
		switch {
		case s.Mass > 0:
			t.Coefficients[i] = add
			if sum > 0 {
				kept[i] = keep / sum
			}
			sum = s.Mass
		case c.History == UnitMass: // the sum vanished: the law keeps the vector before it
			kept[i] = 1
		default:
			sum = 0
		}
	}
	for i := len(steps) - 1; i >= 0; i-- {
		t.Coefficients[i] *= t.OfStart
		t.OfStart *= kept[i]
	}
	t.End = s
	return t
}
