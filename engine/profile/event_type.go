package profile

import (
	"keyfold/engine"
	"keyfold/engine/cure"
)

// EventType is what a user did. The zero value is no event.
type EventType uint8

// The event types. [eventTypes] has a row for each.
const (
	Search EventType = iota + 1
	ProductView
	ProductClick
	ProductPurchase
	endOfEventTypes // behind the last one
)

// eventTypes is the table of the event types. The parser, the stores, the command line, the
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
	weight  float64   // where no setting gives another
	setting cure.Name // of the weight
}

// EventTypes lists every type, in the order of their constants.
var EventTypes = listEventTypes()

func listEventTypes() (all [len(eventTypes) - 1]EventType) {
	for i := range all {
		all[i] = EventType(i + 1)
	}
	return all
}

// Listed reports whether the type is one of [EventTypes].
func (t EventType) Listed() bool { return t > 0 && int(t) < len(eventTypes) }

// String returns the type's name on the wire, "" for one that is not listed.
func (t EventType) String() string {
	if !t.Listed() {
		return ""
	}
	return eventTypes[t].name
}

// HasPhrase reports whether events of the type have a search phrase. Those of the
// others have a product.
func (t EventType) HasPhrase() bool { return t.Listed() && eventTypes[t].phrase }

// WeightSetting returns the name of the setting of a listed type's weight.
func (t EventType) WeightSetting() cure.Name { return eventTypes[t].setting }

// ParseEventType returns the type of that name, or 0 for an unknown one.
func ParseEventType(name string) EventType {
	for _, t := range EventTypes {
		if eventTypes[t].name == name {
			return t
		}
	}
	return 0
}

// Bounds of a weight: only the ratios matter, and within these no sum vanishes
// or overflows.
const (
	MinWeight = 1e-6
	MaxWeight = 1e6
)

// Weights are the event types' weights in the sum, by type, each from [MinWeight] to
// [MaxWeight]. The weight 0 is of no type.
type Weights [len(eventTypes)]float64

// DefaultWeights returns the weights of a worker that was told none.
func DefaultWeights() (w Weights) {
	for _, t := range EventTypes {
		w[t] = eventTypes[t].weight
	}
	return w
}

// Of returns the weight of a type. A type that is not listed has none: the error is
// permanent, so that its event is dead-lettered and never folded.
func (w Weights) Of(t EventType) (float64, error) {
	if !t.Listed() {
		return 0, engine.Refuse(engine.ReasonUnknownEventType, "the event type %d has no weight, expected one of %v", uint8(t), EventTypes)
	}
	return w[t], nil
}

func (w Weights) validate(faults *engine.Faults) {
	for _, t := range EventTypes {
		faults.If(!(w[t] >= MinWeight && w[t] <= MaxWeight), "%s is %v: it must be a number from %g to %g", t.WeightSetting(), w[t], MinWeight, MaxWeight)
	}
}
