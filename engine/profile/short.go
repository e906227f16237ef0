package profile

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// Short is a profile's second vector, of a shorter half-life: the normalised sum of the
// same events in the history [Mass], as of the profile's newest event. It is zero where
// the profile has none.
type Short struct {
	Vector   []float64 // unit length
	Mass     float64   // length of the sum Vector was normalised from
	HalfLife time.Duration
}

// Bounds of a second vector's half-life.
const (
	MinShortHalfLife = 10 * time.Second
	MaxShortHalfLife = 7 * 24 * time.Hour
)

// FoldShort folds the steps, in their order, into a second vector that has every event
// until the profile's newest one, at updated (0: there is no profile). It returns zero
// where the settings have no second vector. One that begins beside a profile takes
// what was folded before for nothing.
func (c Config) FoldShort(s Short, updated engine.Millis, steps []Step) Short {
	if c.ShortHalfLife == 0 {
		return Short{}
	}
	start := State{Vector: s.Vector, Mass: s.Mass, Updated: updated}
	if s.Vector == nil && updated != 0 {
		start.Vector = make([]float64, c.Dimensions) // a late event decays until the profile's newest
	}
	end := c.ShortLaw().Fold(start, steps)
	if s.Vector == nil && length(end.Vector) == 0 {
		return Short{} // the events were too old to leave anything
	}
	return Short{Vector: end.Vector, Mass: end.Mass, HalfLife: c.ShortHalfLife}
}

// Mixed returns the unit vector of mix x the second vector + (1 - mix) x the first. It may
// be the profile's own. A profile without a second vector has no mix but 0.
func (p *Profile) Mixed(mix float64) ([]float64, error) {
	if mix == 0 {
		return p.Vector, nil
	}
	if p.Short.Vector == nil {
		return nil, fmt.Errorf("user %d has no second vector to mix: with %s its next event gives it one", p.UserID, shortSetting)
	}
	v := floats.ScaleTo(make([]float64, len(p.Vector)), 1-mix, p.Vector)
	floats.AddScaled(v, mix, p.Short.Vector)
	if length := floats.Norm(v, 2); length > 0 {
		floats.Scale(1/length, v)
	}
	return v, nil
}

// shortSetting gives profiles their second vector.
const shortSetting cure.Name = "profile.Config.ShortHalfLife"

// ShortLaw returns the settings by which the second vector is folded.
func (c Config) ShortLaw() Config {
	c.Lambda, c.History = math.Ln2/(c.ShortHalfLife.Hours()/24), Mass
	return c
}

// validateShort reports a half-life that no second vector can have.
func (c Config) validateShort(faults *engine.Faults) {
	faults.If(c.ShortHalfLife != 0 && (c.ShortHalfLife < MinShortHalfLife || c.ShortHalfLife > MaxShortHalfLife || c.ShortHalfLife%time.Second != 0),
		"ShortHalfLife is %v: it must be between %v and %v, in whole seconds, or 0 for no second vector", c.ShortHalfLife, MinShortHalfLife, MaxShortHalfLife)
}
