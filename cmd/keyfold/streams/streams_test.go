package streams

import (
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/stream/reader"
)

// The lag counts from the first event that is left, and what cannot be right is said.
func TestListedStream(t *testing.T) {
	state := reader.State{Stream: "s", First: 100, End: 200, Oldest: 1_000_000, Newest: 1_090_000}
	at := func(offset uint64, stored engine.Millis) profile.Position {
		return profile.Position{Offset: offset, Chunk: profile.Fingerprint{First: offset, Timestamp: stored}}
	}
	const now = 1_100_000
	for name, c := range map[string]struct {
		at     profile.Position
		lag    uint64
		behind float64
		fault  string
	}{
		"all is settled":       {at(200, 1_090_000), 0, 0, ""},
		"half is":              {at(150, 1_060_000), 50, 40, ""},
		"nothing was read":     {profile.Position{}, 100, 100, "100 events are gone before they were read"},
		"retention was faster": {at(90, 990_000), 100, 100, "10 events are gone before they were read"},
		"another stream":       {at(900, 1_095_000), 0, 0, "the position is beyond the end"},
	} {
		got := listed(state, c.at, now)
		if got.Lag != c.lag || got.Behind != c.behind || !strings.Contains(got.Fault, c.fault) || (c.fault == "") != (got.Fault == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
