package history

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/proof/notifyoracle"
	"keyfold/service/notify/simulate"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

// fewer halves the caps, or opens them.
func fewer(open bool) func(sets) sets {
	return func(s sets) sets {
		theirs, ours := *s.theirs, *s.ours
		for i := range theirs.Policy.Caps {
			if theirs.Policy.Caps[i] = (theirs.Policy.Caps[i] + 1) / 2; open {
				theirs.Policy.Caps[i] = notify.MaxCap
			}
		}
		ours.Policy = theirs.Policy
		return sets{&theirs, &ours}
	}
}

type turn struct {
	event  uuid.UUID
	number int
}

// text is what a simulation says of a decision.
func text(r *notify.Record) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%v %v %v %d %d %s %d %v", r.Outcome, r.Reasons, r.RuleID, r.DecidedAt, r.DeferUntil, r.DigestKey, r.Slot, r.Channels)
}

// simulated returns what a set would have decided of what is in a ledger.
func simulated(t *testing.T, store *memory.Ledger, set *notify.Set, from engine.Millis) (*simulate.Report, map[turn]string) {
	t.Helper()
	would := map[turn]string{}
	report, err := simulate.Run(t.Context(), store, simulate.Config{
		Set: set, From: from, To: 1 << 47, Sample: 1,
		Each: func(_, w *notify.Record) {
			if w != nil {
				would[turn{w.EventID, w.Turn}] = text(w)
			}
		},
	})
	must.OK(t, err)
	return report, would
}

// TestSimulation decides random histories anew. The set that made them changes nothing,
// from whatever time on, also where follow-ups, replaced and cancelled ones are; under other caps each event has the turns that the processor gives
// it under them, which are a run of the oracle. One kind of difference is not in the records:
// that the candidate would not have moved a deferral which the set in force moved without a
// turn, before anything else of the user differed.
//
// Promise(ledger/simulate): `rules simulate` decides the last days anew and stores nothing: the set in
// force changes 0 decisions, others as oracle and processor say.
// Promise(acceptance/o2): O2: a simulation shows what a set would change, from what to what and by
// which rule.
func TestSimulation(t *testing.T) {
	w, err := New()
	must.OK(t, err)
	var changed, added int64
	met := map[string]int{}      // reasons, where follow-ups are
	unknown := map[string]bool{} // users of whom that is so
	for number := range uint64(histories / 20) {
		number *= setsEvery
		run, store := w.replay(t, number, cosines{}, nil)
		set := pickSet(w, run)
		for _, from := range []engine.Millis{0, run.Records[len(run.Records)/2].DecidedAt} {
			report, _ := simulated(t, store, set, from)
			if report.Changed != 0 || report.Added != 0 || report.Read == 0 || report.NotReplayable != 0 {
				t.Fatalf("history %d from %d, the set in force: %+v", number, from, report)
			}
		}
		if w.fresh { // another set leaves others to report, so that no replay is made under it
			for i := range run.Records {
				met[run.Records[i].Reasons[0]]++
			}
			continue
		}
		// A replay asks for the cosine of an event when it comes, and not again for its later
		// turns: which of these have one differs.
		run, store = w.replay(t, number, nil, nil)
		movedOf := moved(run)
		for _, open := range []bool{false, true} {
			other, _ := w.replay(t, number, nil, fewer(open))
			if faults := slices.Concat(notifyoracle.Check(other), notifyoracle.Replay(other)); len(faults) > 0 {
				t.Fatalf("history %d: %v", number, faults)
			}
			report, would := simulated(t, store, fewer(open)(sets{set, run.Sets[set.Version]}).theirs, 0)
			changed, added = changed+report.Changed, added+report.Added
			known := len(unknown)
			for i := range other.Records {
				r := &other.Records[i]
				got, want := would[turn{r.EventID, r.Turn}], text(r)
				switch {
				case got == want:
				case movedOf[r.UserID]:
					unknown[fmt.Sprint(number, r.UserID)] = true
				default:
					t.Errorf("history %d, event %s, turn %d:\n got %s\nwant %s", number, r.EventID, r.Turn, got, want)
				}
			}
			if len(would) != len(other.Records) && len(unknown) == known {
				t.Errorf("history %d: %d turns, want %d", number, len(would), len(other.Records))
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d decisions changed, %d turns added, %d users were decided at other times", changed, added, len(unknown))
	if len(unknown) > histories/400 {
		t.Errorf("%d users were decided at other times", len(unknown))
	}
	for _, reason := range beside {
		if histories >= 1000 && met[reason] == 0 {
			t.Errorf("no record is %s", reason)
		}
	}
	if changed < histories/80 || added == 0 {
		t.Errorf("%d decisions changed, %d turns added", changed, added)
	}
}

// moved returns the users who have a deferral that was moved without a turn.
func moved(run *notifyoracle.Run) map[string]bool {
	users, before := map[string]bool{}, map[uuid.UUID]engine.Millis{}
	for i := range run.Records {
		r := &run.Records[i]
		if at := before[r.EventID]; at != 0 && r.DigestID == uuid.Nil && r.Facts.Due != at {
			users[r.UserID] = true
		}
		before[r.EventID] = r.DeferUntil
	}
	return users
}

// pickSet returns the set of a run.
func pickSet(w *World, run *notifyoracle.Run) *notify.Set {
	at := slices.IndexFunc(w.sets, func(s sets) bool { return run.Sets[s.theirs.Version] != nil })
	return w.sets[at].theirs
}

// TestSimulationOfWithdrawn decides histories anew that have follow-ups, cancellations,
// replacements and reports. The set that made them changes nothing, and the states are what
// the records come to. The numbers named are of histories where a digest had moved without a
// turn before it was replaced, and where a digest had a follow-up that was read.
//
// Promise(ledger/simulate)
func TestSimulationOfWithdrawn(t *testing.T) {
	w, err := New()
	must.OK(t, err)
	w.Draw.New = All
	numbers := []uint64{132, 134, 301, 319}
	for number := range uint64(histories / 100) {
		numbers = append(numbers, number)
	}
	for _, number := range numbers {
		number *= setsEvery
		run, store := w.replay(t, number, cosines{}, nil)
		set := pickSet(w, run)
		for _, from := range []engine.Millis{0, run.Records[len(run.Records)/2].DecidedAt} {
			report, _ := simulated(t, store, set, from)
			if report.Changed != 0 || report.Added != 0 || report.Read == 0 || report.NotReplayable != 0 {
				t.Errorf("history %d from %d, the set in force: %+v", number, from, report)
			}
		}
		for user := range run.States {
			if v, err := ledger.Verify(t.Context(), store, user, 0); err != nil || len(v.Differences) > 0 {
				t.Errorf("history %d, %s: %+v, %v", number, user, v, err)
			}
		}
	}
}
