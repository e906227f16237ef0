package explain

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
)

// Event is an event of the user's history.
type Event struct {
	profile.Event

	Weight   float64
	Vector   []float64 // unit length; nil: the event counts in the remainder, if at all
	Category string    // of its product
	State    string    // why it is not in the profile; "" where it is
}

func (e *Event) known() bool { return e.State == "" && e.Vector != nil }

// Part is what an event counts in the vector; the zero value is nothing.
type Part struct {
	Event       *Event
	Coefficient float64
	Left        float64 // of the event's weight: 1 is all of it
	Share       float64 // of the vector; negative where the event points away from it
}

// Explanation is what a profile is made of.
type Explanation struct {
	// Parts are those of all events, in folding order.
	Parts []Part
	// Remainder is m u less what is known, and RemainderShare its share of the vector.
	// Of an empty remainder these are rounding.
	Remainder      []float64
	RemainderShare float64
	// Known is how many events were folded anew, and Distance how far the result is from
	// the stored profile: the largest difference of a component, or of the masses over
	// the stored one.
	Known    int
	Distance float64

	config profile.Config
	stored profile.State
	start  profile.State // what the known events are folded into, by [Explanation.Without]
}

// Equal is the distance within which two folds are the same.
const Equal = 1e-9

// Of explains a profile that has a vector. c has the decay; the history is the
// profile's own.
//
// In UnitMass the vector depends on the order in which the events arrived, which the
// profile's ids tell. A profile that was made anew was folded in the order of time.
func Of(c profile.Config, p *profile.Profile, events []Event) *Explanation {
	c.History = p.History
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return a.Compare(&b.Event) })
	if p.History != profile.UnitMass {
		return explain(c, p, events)
	}
	x := explain(c, p, byArrival(events, p.Applied.IDs))
	if x.Distance > Equal {
		if sorted := explain(c, p, events); sorted.Distance <= Equal {
			return sorted
		}
	}
	return x
}

// explain folds the events in this order, and tells what they make of the profile.
func explain(c profile.Config, p *profile.Profile, events []Event) *Explanation {
	x := &Explanation{config: c, stored: p.State(), Parts: make([]Part, len(events))}
	var steps []profile.Step
	for i := range events {
		x.Parts[i].Event = &events[i]
		if events[i].known() {
			steps = append(steps, events[i].step())
		}
	}
	x.Known = len(steps)
	trace := x.config.Trace(profile.State{}, steps)
	x.Distance = x.distance(trace.End)
	if x.Distance > Equal && x.config.History == profile.UnitMass {
		trace, x.start = x.before(trace, steps)
	}
	x.Remainder = x.rest(trace, steps)
	x.share(trace.Coefficients)
	if x.Distance > Equal && x.config.History != profile.UnitMass {
		x.start = unit(x.Remainder, x.stored.Updated)
	}
	return x
}

func (e *Event) step() profile.Step {
	return profile.Step{Vector: e.Vector, Weight: e.Weight, At: e.OccurredAt}
}

// distance is that of a refold to the stored profile. The mass of a refold whose newest
// event is not the profile's is decayed until then.
func (x *Explanation) distance(end profile.State) float64 {
	if end.Vector == nil || len(end.Vector) != len(x.stored.Vector) {
		return 1
	}
	mass := end.Mass * x.config.Decay(end.Updated.Days(x.stored.Updated))
	return max(floats.Distance(end.Vector, x.stored.Vector, math.Inf(1)), math.Abs(mass-x.stored.Mass)/max(x.stored.Mass, 1e-12))
}

// rest decays the coefficients to the profile's time, and returns m u less the sum of
// the events.
func (x *Explanation) rest(t profile.Trace, steps []profile.Step) []float64 {
	late := 1.0
	if len(steps) > 0 {
		late = x.config.Decay(t.End.Updated.Days(x.stored.Updated))
	}
	rest := floats.ScaleTo(make([]float64, len(x.stored.Vector)), x.stored.Mass, x.stored.Vector)
	for i, s := range steps {
		t.Coefficients[i] *= late
		floats.AddScaled(rest, -t.Coefficients[i], s.Vector)
	}
	return rest
}

// share gives the known events their parts, and the remainder its share.
func (x *Explanation) share(coefficients []float64) {
	m, u := x.stored.Mass, x.stored.Vector
	x.RemainderShare = 1
	if m > 0 {
		x.RemainderShare = floats.Dot(x.Remainder, u) / m
	}
	for i := range x.Parts {
		p := &x.Parts[i]
		if !p.Event.known() {
			continue
		}
		p.Coefficient, coefficients = coefficients[0], coefficients[1:]
		p.Left = p.Coefficient / p.Event.Weight
		if m > 0 {
			p.Share = p.Coefficient * floats.Dot(p.Event.Vector, u) / m
		}
	}
}
