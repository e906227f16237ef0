//go:build failpoints

package notifysim

import (
	"maps"
	"testing"

	"keyfold/engine/failpoint"
)

// TestArmed runs schedules while failpoints act, as KEYFOLD_FAILPOINTS says. Each point
// of notifications must have acted, and notifiers must have been killed at each of
// theirs, often enough; and no law may be broken.
func TestArmed(t *testing.T) {
	const enough, most = 50, 2000
	killed := map[string]int{}
	left := func() (names []string) {
		acted := failpoint.Acted()
		for _, name := range failpoint.NotificationNames {
			if acted[name] < enough {
				names = append(names, name)
			}
		}
		for _, name := range deaths {
			if killed[name] < enough {
				names = append(names, "death at "+name)
			}
		}
		return names
	}
	for n := uint64(1); len(left()) > 0; n++ {
		if n > most {
			t.Fatalf("met less than %d times in %d schedules: %v", enough, most, left())
		}
		r := run(t, n, modelBug{}, nil)
		if r.Err != nil {
			t.Fatalf("schedule %d: %v", n, r.Err)
		}
		for name, times := range r.Deaths {
			killed[name] += times
		}
	}
	t.Logf("acted: %v, killed at: %v", failpoint.Acted(), maps.Clone(killed))
}
