package eval

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
)

// checkTolerance is how far a cosine of the slow way may be from the fast one's.
const checkTolerance = 1e-6

// check answers a question by the slow way: it folds the user's vectors as a worker does
// and compares the cosines of all candidates and the items' ranks.
func (w *worker) check(u *user, q *question) error {
	if w.usable == 0 {
		return nil
	}
	for _, s := range w.sums {
		if math.IsInf(s.Lambda, 1) {
			continue // keyfold has no such setting
		}
		law := profile.Config{Dimensions: w.vectors.Dimensions(), Lambda: s.Lambda, History: s.History, Weights: s.Weights}
		state := law.Fold(profile.State{}, w.steps(u, s))
		if state.Mass < vanished*s.weight {
			continue
		}
		factor := s.scale / state.Mass // makes the scores cosines
		if s.History == profile.UnitMass {
			factor = s.scale
		}
		if err := w.compare(u, q, s, factor, w.cosines(s, factor, state.Vector)); err != nil {
			return err
		}
	}
	w.checked++
	return nil
}

// cosines returns those of the slow way. A candidate without a vector has what its rows say.
func (w *worker) cosines(s *sum, factor float64, unit []float64) []float64 {
	all := make([]float64, w.Candidates)
	for j := range all {
		if w.Space.Row(int32(j)) == nil {
			all[j] = s.scores[j] * factor
		} else {
			all[j] = w.vectors.Dot(unit, int32(j))
		}
	}
	return all
}

// compare compares all cosines, and the ranks of a question's items.
func (w *worker) compare(u *user, q *question, s *sum, factor float64, cosines []float64) error {
	for j, slow := range cosines {
		if fast := s.scores[j] * factor; !(math.Abs(fast-slow) <= checkTolerance) {
			return fmt.Errorf("user %d, %s: the cosine of product %d is %v, folded by the slow way it is %v: please report this",
				u.id, s.Name, w.Things[j].Product, fast, slow)
		}
	}
	for _, item := range q.items {
		above, equal := rank(s.scores, item, w.met, s.tolerance())
		slowAbove, slowEqual := rank(cosines, item, w.met, s.tolerance()*factor)
		if (above != slowAbove || equal != slowEqual) && !nearTie(cosines, item) {
			return fmt.Errorf("user %d, %s: product %d has rank %d, by the slow way %d: please report this",
				u.id, s.Name, w.Things[item].Product, above+1, slowAbove+1)
		}
	}
	return nil
}

// steps are the events folded so far, as a worker folds them.
func (w *worker) steps(u *user, s *sum) (steps []profile.Step) {
	for i := range u.events[:w.folded] {
		e := &u.events[i]
		if e.thing < 0 || w.Space.Row(e.thing) == nil {
			continue
		}
		x := make([]float64, w.vectors.Dimensions())
		w.vectors.Add(x, 1, e.thing)
		floats.Scale(1/floats.Norm(x, 2), x)
		steps = append(steps, profile.Step{Vector: x, Weight: s.Weights[e.kind], At: e.at})
	}
	return steps
}

// nearTie reports whether another candidate's cosine is so near to the item's that
// rounding decides their order.
func nearTie(cosines []float64, item int32) bool {
	for j, x := range cosines {
		if d := math.Abs(x - cosines[item]); int32(j) != item && d > tie/2 && d < checkTolerance {
			return true
		}
	}
	return false
}
