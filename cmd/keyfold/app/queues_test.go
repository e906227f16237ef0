package app

import (
	"slices"
	"strings"
	"testing"
)

func TestPartitionList(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "3": {3}, "0-2,12": {0, 1, 2, 12}, "5, 1-2, 2": {1, 2, 5}} {
		var l partitionList
		if err := l.UnmarshalText([]byte(text)); err != nil || !slices.Equal(l, want) {
			t.Errorf("%q: %v, %v", text, l, err)
		}
	}
	for _, text := range []string{"64", "-1", "7-3", "a", "1-", "1,,2", "1-2-3"} {
		var l partitionList
		if err := l.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "0-7,12") {
			t.Errorf("%q: %v, %v", text, l, err)
		}
	}
}
