package engine_test

import (
	"testing"

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
		if got := engine.Edits(test.a, test.b); got != test.want {
			t.Errorf("%q to %q: %d edits, want %d", test.a, test.b, got, test.want)
		}
	}
}
