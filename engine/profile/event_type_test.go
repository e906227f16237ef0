package profile

import (
	"strings"
	"testing"

	"keyfold/engine"
)

func TestEventTypeTable(t *testing.T) {
	seen := map[string]bool{}
	for _, eventType := range EventTypes {
		row := eventTypes[eventType]
		if row.name == "" || row.setting == "" || seen[row.name] || seen[string(row.setting)] {
			t.Errorf("type %d has the row %+v: its name and its setting must be its own", eventType, row)
		}
		seen[row.name], seen[string(row.setting)] = true, true
		if got := ParseEventType(row.name); got != eventType || eventType.String() != row.name {
			t.Errorf("type %d is written %q, and %q is read as %d", eventType, eventType, row.name, got)
		}
	}
}

// Each weight is validated under the name of its own setting.
func TestEveryWeightIsValidated(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, eventType := range EventTypes {
		c := DefaultConfig()
		c.Weights[eventType] = 0
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), eventType.WeightSetting().String()+" is 0: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("without a weight of %s: %v", eventType, err)
		}
	}
}

func TestUnlistedTypeHasNoWeight(t *testing.T) {
	for _, eventType := range []EventType{0, EventType(len(eventTypes)), 255} {
		if w, err := DefaultWeights().Of(eventType); engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != engine.ReasonUnknownEventType || w != 0 {
			t.Errorf("type %d has the weight %v, %v", eventType, w, err)
		}
		if eventType.Listed() || eventType.String() != "" || eventType.HasPhrase() {
			t.Errorf("type %d is %q", eventType, eventType)
		}
	}
}
