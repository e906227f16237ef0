package notify

import (
	"testing"

	"pgregory.net/rapid"
)

// watchStages has see hear of each stage of each decision, behind the stage.
func watchStages(t *testing.T, see func(number int, d *decision, ended bool)) {
	before := append([]Stage(nil), Stages...)
	t.Cleanup(func() { copy(Stages, before) })
	for i, s := range before {
		Stages[i].decide = func(d *decision) bool {
			ended := s.decide(d)
			see(i+1, d, ended)
			return ended
		}
	}
}

// A record is enough to say which stage made the decision: the one that ended it, or the
// first one that gave it a reason to wait. So no ledger stores the stage.
func TestARecordNamesItsStage(t *testing.T) {
	first, met := 0, make([]int, len(Stages)+1)
	watchStages(t, func(number int, d *decision, ended bool) {
		if number == 1 {
			first = 0
		}
		if first == 0 && (len(d.collected) > 0 || d.wait.outcome != 0) {
			first = number
		}
		made, by := d.made, number
		if !ended {
			if number < len(Stages) || d.wait.outcome != Later {
				return
			}
			made.Outcome, by = Later, first
			if made.Reasons = d.wait.reasons; made.Reasons == nil {
				made.Reasons = d.collected
			}
		}
		met[by]++
		if got := made.Stage(); got != by {
			t.Errorf("%s %v was decided by stage %d, the record says %d", made.Outcome, made.Reasons, by, got)
		}
	})
	for _, tc := range stages {
		s := newScene()
		tc.change(s)
		s.print()
		s.decide()
	}
	for _, tc := range wishStages {
		s := newScene()
		tc.change(s)
		s.print()
		s.decide()
	}
	for i, n := range met[1:] {
		if n == 0 {
			t.Errorf("no decision was made by stage %d, %s", i+1, Stages[i].Name)
		}
	}
	rapid.Check(t, func(t *rapid.T) { drawHistory(t) })
}

// A record without a reason, and one of a later version's stage, name none.
func TestRecordsOfNoKnownStage(t *testing.T) {
	for _, r := range []Record{{UserID: "u"}, {UserID: "u", Outcome: Never, Reasons: []string{"OF_A_LATER_VERSION"}}} {
		if told := Explain(&Decided{Record: r}); r.Stage() != 0 || told.DecidedBy != "" || len(told.Stages) != len(Stages) {
			t.Errorf("%v: stage %d, explained as %+v", r.Reasons, r.Stage(), told)
		}
	}
}
