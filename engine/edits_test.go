package engine_test

import (
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine"
)

func TestEdits(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"field", "field", 0},
		{"feild", "field", 1},
		{"sorce", "source", 1},
		{"equal", "eq", 3},
		{"gte", "lte", 1},
		{"abcd", "badc", 2},
	} {
		for most := range 6 {
			if got := engine.Edits(test.a, test.b, most); got != min(test.want, most+1) {
				t.Errorf("%q to %q, at most %d: %d edits, want %d", test.a, test.b, most, got, test.want)
			}
		}
	}
}

// A bound changes no count up to it.
func TestEditsWithABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abc]{0,9}`)
		a, b, most := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(0, 9).Draw(t, "most")
		if all, got := engine.Edits(a, b, 1000), engine.Edits(a, b, most); got != min(all, most+1) {
			t.Errorf("%q to %q: %d edits, %d with a bound of %d", a, b, all, got, most)
		}
	})
}
