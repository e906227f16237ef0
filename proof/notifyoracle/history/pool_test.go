package history

import (
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// TestChangesAreFound: New York's clock changes twice a year, at 02:00 of the old time.
func TestChangesAreFound(t *testing.T) {
	l, err := time.LoadLocation("America/New_York")
	must.OK(t, err)
	changes := changesOf(l)
	if len(changes) != 22 {
		t.Fatalf("%d changes from 2020 to 2030", len(changes))
	}
	if first := changes[0].Time().Format(time.RFC3339); first != "2020-03-08T07:00:00Z" {
		t.Error(first)
	}
}
