package failures

import (
	"testing"

	"keyfold/internal/cli"
)

func TestReplayRate(t *testing.T) {
	for text, batch := range map[string]int{"1/s": 1, "100/s": 20, "100": 20, "100000/s": maxReplayBatch} {
		var r cli.Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || batchOf(r) != batch {
			t.Errorf("%q: %v, batch %d, want %d", text, err, batchOf(r), batch)
		}
	}
}
