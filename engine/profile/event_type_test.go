package profile

import (
	"math"
	"slices"
	"strings"
	"testing"

	"keyfold/engine"
)

// fourTypes are those of every process. Tests add others.
var fourTypes = []EventType{Search, ProductView, ProductClick, ProductPurchase}

func TestEventTypeTable(t *testing.T) {
	seen := map[string]bool{}
	for _, eventType := range fourTypes {
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
	for _, eventType := range fourTypes {
		c := DefaultConfig()
		c.Weights[eventType] = 0
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), eventType.WeightSetting().String()+" is 0: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("without a weight of %s: %v", eventType, err)
		}
	}
}

func TestUnlistedTypeHasNoWeight(t *testing.T) {
	for _, eventType := range []EventType{0, EventType(len(EventTypes()) + 1), 255} {
		if w, err := DefaultWeights().Of(eventType); engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != engine.ReasonUnknownEventType || w != 0 {
			t.Errorf("type %d has the weight %v, %v", eventType, w, err)
		}
		if eventType.Listed() || eventType.String() != "" || eventType.HasPhrase() {
			t.Errorf("type %d is %q", eventType, eventType)
		}
	}
}

// A shop's types are added to the four, and once, however often they are named.
func TestAddEventTypes(t *testing.T) {
	own := []OwnType{{Name: "test_wish", Weight: 0.6}, {Name: "test_return", Weight: -1}, {Name: "test_question", Phrase: true, Weight: 0.1}}
	types, err := AddEventTypes(own)
	if err != nil {
		t.Fatal(err)
	}
	again, err := AddEventTypes(own[1:])
	if err != nil || !slices.Equal(again, types[1:]) {
		t.Errorf("asked again: %v, %v, want %v", again, err, types[1:])
	}
	for i, o := range own {
		if got := ParseEventType(o.Name); got != types[i] || !got.Own() || !got.Listed() || got.String() != o.Name || got.HasPhrase() != o.Phrase {
			t.Errorf("%s is %d, want %d", o.Name, got, types[i])
		}
		if _, err := DefaultWeights().Of(types[i]); engine.ReasonOf(err) != engine.ReasonUnknownEventType {
			t.Errorf("%s has a weight that no setting gives it: %v", o.Name, err)
		}
	}
	c := DefaultConfig()
	c.Weights[types[1]] = -1
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if against := c.Weights.Against(); !slices.Equal(against, types[1:2]) {
		t.Errorf("against a product are %v, want %v", against, types[1:2])
	}
	c.Weights[types[1]] = -2e6
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "test_return is -2e+06") {
		t.Errorf("a weight of -2e6: %v", err)
	}
	c = DefaultConfig()
	c.Weights[ProductView] = -0.3
	if c.Validate() == nil {
		t.Error("the four may have no negative weights")
	}
}

func TestEventTypesThatAreRefused(t *testing.T) {
	before := len(EventTypes())
	var many []OwnType
	for i := range MaxEventTypes {
		many = append(many, OwnType{Name: "test_many_" + itoa(i), Weight: 1})
	}
	for want, own := range map[string][]OwnType{
		"is no name":             {{Name: "Wish", Weight: 1}},
		"is no name of an":       {{Name: "a'b", Weight: 1}},
		"1 to 32":                {{Name: strings.Repeat("a", 33), Weight: 1}},
		"keyfold's own":          {{Name: "search", Phrase: true, Weight: 1}},
		"is 0: it must":          {{Name: "test_nothing", Weight: 0}},
		"is NaN":                 {{Name: "test_nan", Weight: math.NaN()}},
		"is there twice":         {{Name: "test_twice", Weight: 1}, {Name: "test_twice", Weight: 2}},
		"there may be 28":        many,
		"has another target":     {{Name: "test_target", Weight: 1}},
		"test_small is 1e-07: i": {{Name: "test_fine", Weight: 1}, {Name: "test_small", Weight: 1e-7}},
	} {
		if want == "has another target" {
			if _, err := AddEventTypes([]OwnType{{Name: "test_target", Phrase: true, Weight: 1}}); err != nil {
				t.Fatal(err)
			}
			before = len(EventTypes())
		}
		if _, err := AddEventTypes(own); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", own, err, want)
		}
		if n := len(EventTypes()); n != before {
			t.Errorf("%v was refused, and there are %d types, want %d", own, n, before)
		}
	}
}

// Of a profile whose events were taken back there is less left than half a single event.
func TestFaint(t *testing.T) {
	w := DefaultWeights()
	if w.Faint() != 0 {
		t.Errorf("without a negative weight no profile is faint: %v", w.Faint())
	}
	types, err := AddEventTypes([]OwnType{{Name: "test_return", Weight: -1}})
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Weights[types[0]] = -1
	if got := c.Weights.Faint(); got != 0.15 {
		t.Errorf("%v, want half of a view's 0.3", got)
	}
	x := axis(0, 4)
	returned := c.Fold(State{}, []Step{{x, 1, 0}, {x, -1, day(1)}})
	if returned.Mass >= c.Weights.Faint() || returned.Mass < 0.02 {
		t.Errorf("a purchase taken back after a day leaves %v", returned.Mass)
	}
}
