package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"keyfold/engine/profile"
)

// EventTypes are the shop's own event types, as "product_wish=0.6,product_return=-1": names
// and weights, "name:phrase=weight" for a type whose events have a search phrase in place of
// a product.
type EventTypes []profile.OwnType

var errEventTypes = errors.New("names and weights such as product_wish=0.6,product_return=-1, with :phrase behind the name of a type " +
	"whose events have a search phrase in place of a product")

// UnmarshalText reads the types.
func (e *EventTypes) UnmarshalText(text []byte) error {
	*e = nil
	if len(text) == 0 {
		return nil
	}
	for part := range strings.SplitSeq(string(text), ",") {
		name, weight, found := strings.Cut(part, "=")
		if !found {
			return errEventTypes
		}
		own := profile.OwnType{}
		own.Name, own.Phrase = strings.CutSuffix(strings.TrimSpace(name), ":phrase")
		own.Name = strings.TrimSuffix(own.Name, ":product")
		var err error
		if own.Weight, err = strconv.ParseFloat(strings.TrimSpace(weight), 64); err != nil {
			return errEventTypes
		}
		*e = append(*e, own)
	}
	return nil
}

// String writes what UnmarshalText reads.
func (e EventTypes) String() string {
	parts := make([]string, len(e))
	for i, own := range e {
		target := ""
		if own.Phrase {
			target = ":phrase"
		}
		parts[i] = fmt.Sprintf("%s%s=%v", own.Name, target, own.Weight)
	}
	return strings.Join(parts, ",")
}

// KnowEventTypes makes a program that measures know the types in the text of EVENT_TYPES: the
// logs that it publishes may have them.
func KnowEventTypes(text string) error {
	var types EventTypes
	if err := types.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("EVENT_TYPES is %q: it must be %w", text, err)
	}
	return types.add(&profile.Weights{})
}

// add makes the process know the types, and sets their weights.
func (e EventTypes) add(weights *profile.Weights) error {
	types, err := profile.AddEventTypes(e)
	if err != nil {
		return fmt.Errorf("EVENT_TYPES is %q: %w", e, err)
	}
	for i, t := range types {
		weights[t] = e[i].Weight
	}
	return nil
}
