package notify

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine"
)

// full reports whether a span of a window's length with an instant in it has as many others as
// a cap allows.
func full(taken []engine.Millis, limit int, window, at engine.Millis) bool {
	for from := at - window + 1; from <= at; from++ {
		within := 0
		for _, one := range taken {
			if from <= one && one < from+window {
				within++
			}
		}
		if within >= limit {
			return true
		}
	}
	return false
}

// A cap names the least instant at which it lets one through, among sends and reservations.
func TestACapNamesTheLeastInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instants := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) engine.Millis {
			return engine.Millis(rapid.IntRange(1, 40).Draw(t, "instant"))
		}), 0, 20).Draw(t, "instants")
		slices.Sort(instants)
		limit, window := rapid.IntRange(1, 4).Draw(t, "limit"), engine.Millis(rapid.IntRange(1, 12).Draw(t, "window"))
		at := engine.Millis(rapid.IntRange(1, 45).Draw(t, "at"))
		least := at
		for full(instants, limit, window, least) {
			least++
		}
		all := slots{taken: instants}
		if free := all.free(limit, window, at); free != least {
			t.Fatalf("%d within %d of %v: at %d it is free at %d, not at %d", limit, window, instants, at, least, free)
		}
	})
}
