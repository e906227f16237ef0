package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// The flags are fields of [Engine], so that a new event type needs one more.
func TestEveryEventTypeHasAWeightFlag(t *testing.T) {
	var s Engine
	p, err := kong.New(&s, kong.Name("test"))
	must.OK(t, err)
	flags := map[string]string{} // by variable
	for _, flag := range p.Model.Flags {
		if strings.HasPrefix(flag.Name, "weight-") {
			flags[flag.Envs[0]] = flag.Name
		}
	}
	types := slices.DeleteFunc(slices.Clone(profile.EventTypes()), profile.EventType.Own) // other tests add a shop's
	if len(flags) != len(types) {
		t.Errorf("there are the flags %v for the types %v", flags, types)
	}
	for _, eventType := range types {
		variable := eventType.WeightSetting().String()
		name := flags[variable]
		if want := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "EMBEDDING_")), "_", "-"); name != want {
			t.Errorf("%s has the flag %q, want %q", variable, name, want)
			continue
		}
		want := profile.DefaultConfig().Weights
		want[eventType] = 0.125
		if c, err := parse(t, nil, "--"+name+"=0.125").Config(); err != nil || c.Processor.Weights != want {
			t.Errorf("--%s=0.125 sets %v, want %v: %v", name, c.Processor.Weights, want, err)
		}
		t.Run(name, func(t *testing.T) {
			if c, err := parse(t, map[string]string{variable: "0.125"}).Config(); err != nil || c.Processor.Weights != want {
				t.Errorf("%s=0.125 sets %v, want %v: %v", variable, c.Processor.Weights, want, err)
			}
		})
	}
}
