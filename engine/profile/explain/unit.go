package explain

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// byArrival returns the events in the order in which the profile folded them, as far
// as it is known: its ids are in this order, and what has none there is older.
func byArrival(events []Event, ids []profile.AppliedID) []Event {
	turns := make(map[profile.AppliedID]int, len(ids))
	for i, id := range ids {
		turns[id] = i + 1
	}
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return turns[a.Digest.ID()] - turns[b.Digest.ID()] })
	return events
}

// before looks for the state that the known events were folded into where a refold of
// them alone does not make the profile. In UnitMass a coefficient depends on the lengths
// on the way, and these on all that came before. Each round folds into the vector that
// the round before it left over, as old as it counts. Where no such state leads to the
// profile, or it counts for nothing, trace stands. There may be several.
func (x *Explanation) before(trace profile.Trace, steps []profile.Step) (profile.Trace, profile.State) {
	if len(steps) == 0 {
		return trace, x.stored
	}
	newest := steps[0].At
	start := profile.State{Vector: x.stored.Vector, Mass: 1, Updated: newest}
	for range min(200, 1+200_000/len(steps)) { // it takes a dozen rounds
		tried := x.config.Trace(start, steps)
		if x.distance(tried.End) <= Equal {
			return tried, start
		}
		left := unit(x.rest(tried, steps), newest)
		if tried.OfStart < 1e-12 || left.Vector == nil {
			break
		}
		// Where start is right, OfStart is how long what the events leave over is.
		if x.config.Lambda > 0 {
			days := math.Log(left.Mass/tried.OfStart) / x.config.Lambda
			start.Updated = min(newest, start.Updated+engine.Millis(days*24*3600*1000))
		}
		start.Vector = left.Vector
	}
	return trace, profile.State{}
}

// unit returns the state of a sum; none where only rounding is left.
func unit(sum []float64, at engine.Millis) profile.State {
	mass := floats.Norm(sum, 2)
	if mass < 1e-12 {
		return profile.State{}
	}
	return profile.State{Vector: floats.ScaleTo(make([]float64, len(sum)), 1/mass, sum), Mass: mass, Updated: at}
}
