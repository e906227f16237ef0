package settings

import (
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func TestEventTypes(t *testing.T) {
	c, err := parse(t, map[string]string{"EVENT_TYPES": "settings_wish=0.6, settings_return:product=-1,settings_question:phrase=0.2"}).Config()
	must.OK(t, err)
	for name, want := range map[string]float64{"settings_wish": 0.6, "settings_return": -1, "settings_question": 0.2, "product_view": 0.3} {
		kind := profile.ParseEventType(name)
		if w, err := c.Processor.Weights.Of(kind); err != nil || w != want || kind.HasPhrase() != (name == "settings_question") {
			t.Errorf("%s weighs %v (%v), want %v", name, w, err, want)
		}
	}
	// Another configuration of the process has none of them.
	c, err = parse(t, map[string]string{"EVENT_TYPES": ""}).Config()
	if err != nil || c.Processor.Weights != profile.DefaultWeights() {
		t.Errorf("%v, %v", c.Processor.Weights, err)
	}
	for text, want := range map[string]string{
		"settings_wish":          "it must be names and weights such as",
		"settings_wish=much":     "it must be names and weights such as",
		"settings_wish=0":        "the weight of settings_wish is 0",
		"settings_wish=Inf":      "the weight of settings_wish is +Inf",
		"search=1":               "search is one of keyfold's own types",
		"Wish=1":                 `"Wish" is no name`,
		"a=1,a=2":                "a is there twice",
		"settings_question=0.2":  "settings_question has another target",
		"settings_wish:thing=1":  `"settings_wish:thing" is no name`,
		"settings_wish=1,,b=1":   "it must be names and weights such as",
		"settings_wish=1 b=2":    "it must be names and weights such as",
		"product_wish=1e7":       "the weight of product_wish is 1e+07",
		"settings_wish=0.6,b=-0": "the weight of b is",
	} {
		if _, err := parse(t, map[string]string{"EVENT_TYPES": text}).Config(); err == nil || !strings.HasPrefix(err.Error(), "EVENT_TYPES is ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
