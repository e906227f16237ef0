package profile

import (
	"math"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// EventType is what a user did. The zero value is no event. The number of a type of the shop's
// own is the process's: stores and messages have its name.
type EventType uint8

// The event types that every process knows. [AddEventTypes] adds a shop's own.
const (
	Search EventType = iota + 1
	ProductView
	ProductClick
	ProductPurchase
	endOfEventTypes // behind the last one
)

// eventTypes is the table of these event types. The parser, the stores, the command line, the
// default weights and their validation are made of its rows. The row 0 is no type.
// docs/extend/event-type.md lists what a new type takes.
var eventTypes = [...]eventTypeRow{
	Search:          {name: "search", phrase: true, weight: 0.7, setting: "profile.Weights.Search"},
	ProductView:     {name: "product_view", weight: 0.3, setting: "profile.Weights.View"},
	ProductClick:    {name: "product_click", weight: 0.5, setting: "profile.Weights.Click"},
	ProductPurchase: {name: "product_purchase", weight: 1, setting: "profile.Weights.Purchase"},
}

// A type without a row at the table's end does not compile.
const _ = uint(len(eventTypes) - int(endOfEventTypes))

type eventTypeRow struct {
	name    string    // on the wire and in the stores
	phrase  bool      // an event has a search phrase; otherwise it has a product
	weight  float64   // where no setting gives another; 0: of a shop's own type, whose setting always does
	setting cure.Name // of the weight
}

// EventTypes lists every type that the process knows, in the order of their numbers.
func EventTypes() []EventType { return known.Load().all }

// Listed reports whether the type is one of [EventTypes].
func (t EventType) Listed() bool { return t > 0 && int(t) < len(known.Load().rows) }

// row returns a type's row, an empty one for a type that is not listed.
func (t EventType) row() eventTypeRow {
	if rows := known.Load().rows; int(t) < len(rows) {
		return rows[t]
	}
	return eventTypeRow{}
}

// String returns the type's name on the wire, "" for one that is not listed.
func (t EventType) String() string { return t.row().name }

// HasPhrase reports whether events of the type have a search phrase. Those of the
// others have a product.
func (t EventType) HasPhrase() bool { return t.row().phrase }

// Own reports whether the type is a shop's own.
func (t EventType) Own() bool { return t >= endOfEventTypes && t.Listed() }

// WeightSetting returns the name of the setting of a listed type's weight.
func (t EventType) WeightSetting() cure.Name { return t.row().setting }

// ParseEventType returns the type of that name, or 0 for an unknown one.
func ParseEventType(name string) EventType {
	rows := known.Load().rows
	for i := 1; i < len(rows); i++ {
		if rows[i].name == name {
			return EventType(i)
		}
	}
	return 0
}

// Bounds of a weight's size: only the ratios matter, and within these no sum vanishes
// or overflows.
const (
	MinWeight = 1e-6
	MaxWeight = 1e6
)

// Weights are the event types' weights in the sum, by type, each from [MinWeight] to
// [MaxWeight]; those of a shop's own types may be that far below 0 too. The weight 0 is of no
// type.
type Weights [MaxEventTypes + 1]float64

// DefaultWeights returns the weights of a worker that was told none.
func DefaultWeights() (w Weights) {
	for t, row := range eventTypes {
		w[t] = row.weight
	}
	return w
}

// Of returns the weight of a type. A type that is not listed, or that these weights lack, has
// none: the error is permanent, so that its event is dead-lettered and never folded.
func (w Weights) Of(t EventType) (float64, error) {
	if !t.Listed() || w[t] == 0 {
		return 0, engine.Refuse(engine.ReasonUnknownEventType, "the event type %d has no weight, expected one of %v", uint8(t), w.types())
	}
	return w[t], nil
}

// types lists the types that have a weight.
func (w Weights) types() (all []EventType) {
	for _, t := range EventTypes() {
		if w[t] != 0 {
			all = append(all, t)
		}
	}
	return all
}

// Against lists the types with a negative weight: their events tell against a product.
func (w Weights) Against() (all []EventType) {
	for _, t := range EventTypes() {
		if w[t] < 0 {
			all = append(all, t)
		}
	}
	return all
}

// Faint returns the mass below which a profile has no direction to go by: half the smallest
// size of a weight where one is negative, otherwise 0. A single event has the mass of its
// weight. So what is below has been taken back, and what is left is the trace of the decay
// between both: bought, and returned a day later, a product leaves 2 % of its weight, pointing
// away from it.
func (w Weights) Faint() float64 {
	if len(w.Against()) == 0 {
		return 0
	}
	smallest := MaxWeight
	for _, x := range w {
		if x != 0 {
			smallest = min(smallest, math.Abs(x))
		}
	}
	return smallest / 2
}

func (w Weights) validate(faults *engine.Faults) {
	for t := range eventTypes[1:] {
		t := EventType(t + 1)
		faults.If(!(w[t] >= MinWeight && w[t] <= MaxWeight), "%s is %v: it must be a number from %g to %g", t.WeightSetting(), w[t], MinWeight, MaxWeight)
	}
	for t := endOfEventTypes; int(t) < len(w); t++ {
		size := math.Abs(w[t])
		faults.If(w[t] != 0 && !(size >= MinWeight && size <= MaxWeight), "%s: the weight of %s is %v: it must be a number from %g to %g, or as far below 0",
			ownSetting, t, w[t], MinWeight, MaxWeight)
	}
}
