package oracle

import (
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// The engine's table of event types and the oracle's agree. Neither is made of the other.
func TestEventTypesAreTheEngines(t *testing.T) {
	weights := profile.DefaultConfig().Weights
	for _, eventType := range profile.EventTypes() {
		if eventType.Own() { // another test's
			continue
		}
		own, known := eventTypes[eventType.String()]
		if !known {
			t.Errorf("the oracle does not know %s", eventType)
			continue
		}
		if w, err := weights.Of(eventType); err != nil || w != own.weight || eventType.HasPhrase() != own.phrase {
			t.Errorf("%s weighs %v (%v) in the engine, with a phrase: %t; want %+v", eventType, w, err, eventType.HasPhrase(), own)
		}
	}
	for name := range eventTypes {
		if !profile.ParseEventType(name).Listed() {
			t.Errorf("the engine does not know %s", name)
		}
	}
}

func TestUnknownTypeIsRefused(t *testing.T) {
	o, err := New(profile.DefaultConfig(), nil)
	must.OK(t, err)
	if err := o.AddEvent(&profile.Event{UserID: 1, ProductID: 1, MessageID: "a"}); err == nil || len(o.Users) != 0 {
		t.Errorf("it folded an event without a type: %v", err)
	}
}
