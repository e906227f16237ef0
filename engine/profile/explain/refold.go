package explain

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
)

// Without folds the profile anew without some events. The remainder stays. The result
// has no vector where nothing is left.
func (x *Explanation) Without(leave func(*Event) bool) profile.State {
	return x.config.Fold(x.start, x.steps(leave))
}

// WithDecay folds the known events with another decay per day. The remainder is left
// out: the ages of its events are not known.
func (x *Explanation) WithDecay(lambda float64) profile.State {
	c := x.config
	c.Lambda = lambda
	return c.Fold(profile.State{}, x.steps(func(*Event) bool { return false }))
}

func (x *Explanation) steps(leave func(*Event) bool) (steps []profile.Step) {
	for _, p := range x.Parts {
		if p.Event.known() && !leave(p.Event) {
			steps = append(steps, p.Event.step())
		}
	}
	return steps
}

// ScorePart is what an event counts in a product's score.
type ScorePart struct {
	Event *Event
	Score float64
}

// Score is the cosine of the profile and a product: the sum of what the events count in
// it, largest first, and of the remainder.
type Score struct {
	Cosine    float64
	Parts     []ScorePart
	Remainder float64
}

// Score tells which events make the score of a product's unit vector.
func (x *Explanation) Score(product []float64) Score {
	s := Score{Cosine: floats.Dot(x.stored.Vector, product)}
	if x.stored.Mass == 0 {
		s.Remainder = s.Cosine
		return s
	}
	s.Remainder = floats.Dot(x.Remainder, product) / x.stored.Mass
	for _, p := range x.Parts {
		if p.Event.known() {
			s.Parts = append(s.Parts, ScorePart{p.Event, p.Coefficient * floats.Dot(p.Event.Vector, product) / x.stored.Mass})
		}
	}
	s.sort()
	return s
}

// Second explains the profile's second vector, which it must have.
func Second(c profile.Config, p *profile.Profile, events []Event) *Explanation {
	second := *p
	second.Vector, second.Mass, second.History = p.Short.Vector, p.Short.Mass, profile.Mass
	c.ShortHalfLife = p.Short.HalfLife
	return Of(c.ShortLaw(), &second, events)
}

func (s *Score) sort() {
	slices.SortStableFunc(s.Parts, func(a, b ScorePart) int { return cmp.Compare(b.Score, a.Score) })
}
