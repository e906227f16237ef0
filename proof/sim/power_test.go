package sim

import (
	"testing"
)

// TestModelsRules breaks a rule of the model's store at a time: a simulation where reads
// show what may be taken back, or where writes do not look at versions, must be
// noticed. It says that the schedules are rough enough to need these rules; that the
// real store keeps them is what the soak shows.
//
// Promise(proof/sim)
func TestModelsRules(t *testing.T) {
	for name, s := range map[string]kind{
		"reads without a majority": {modelBug: modelBug{dirtyReads: true}},
		"writes without a version": {modelBug: modelBug{blindSwaps: true}},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 2000
			for n := range uint64(most) {
				if r := run(t, n, s, nil); r.Err != nil {
					t.Logf("schedule %d: %v", n, r.Err)
					return
				}
			}
			t.Errorf("not noticed in %d schedules", most)
		})
	}
}
