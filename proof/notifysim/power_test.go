package notifysim

import "testing"

// TestModelsRules breaks a rule of the model at a time: each must be noticed. It says
// that the schedules are rough enough to need these rules; that the real ledgers keep
// them is what sink/ledgertest shows.
//
// Promise(notify/two-workers, notify/leases, proof/notifysim)
func TestModelsRules(t *testing.T) {
	for name, bug := range map[string]modelBug{
		"commits without a version":                {blindCommits: true},
		"merges without versions":                  {blindMerges: true},
		"leases that end at once":                  {shortLeases: true},
		"answers of commits that did not happen":   {lostCommits: true},
		"a clock that is read before the dispatch": {lateClocks: true},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 300
			for n := range uint64(most) {
				if r := run(t, n, bug, nil); r.Err != nil {
					t.Logf("schedule %d: %v", n, r.Err)
					return
				}
			}
			t.Errorf("not noticed in %d schedules", most)
		})
	}
}
