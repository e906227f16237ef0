package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// mergeRounds is how often a race is run, each time with users of its own.
var mergeRounds = 8

func init() {
	if long {
		mergeRounds = 24
	}
}

// raceWithMerge calls run while an alias is merged, and returns the error of the merge.
func raceWithMerge(s Store, alias, into string, run func()) (err error) {
	var group sync.WaitGroup
	group.Go(func() { _, err = ledger.MergeUsers(ctx, s, alias, into, start) })
	group.Go(run)
	group.Wait()
	return err
}

// Preferences that are stored for a user who becomes an alias meanwhile are the person's, or
// refused.
func testMergeRacesPreferences(t *testing.T, s Store) {
	for round := range mergeRounds {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		if round%2 == 0 { // or else of a nothing is stored
			fold(t, s, a, notify.Now, start)
		}
		fold(t, s, b, notify.Now, start)
		var put error
		must(t, raceWithMerge(s, a, b, func() {
			put = s.SetPreferences(ctx, a, notify.Preferences{Muted: []notify.EventType{notify.Promo}})
		}))
		muted := len(standing(t, s, b).Preferences.Muted) == 1
		if _, refused := errors.AsType[*ledger.MergedError](put); refused == muted || put != nil && !refused {
			t.Errorf("round %d: preferences were stored: %v, and are the person's: %v", round, put, muted)
		}
		if own := standing(t, s, a).Preferences; own.Muted != nil {
			t.Errorf("round %d: an alias has preferences: %+v", round, own)
		}
	}
}

// An erasure that comes during a merge erases both users or the one alone, and leaves no alias.
func testMergeRacesForget(t *testing.T, s Store) {
	for round := range mergeRounds {
		ids := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
		fold(t, s, ids[0], notify.Later, start)
		fold(t, s, ids[1], notify.Later, start)
		erased := ids[round%2]
		var forgot error
		merged := raceWithMerge(s, ids[0], ids[1], func() { forgot = s.Forget(ctx, erased, start) })
		must(t, forgot)
		if merged != nil && engine.ReasonOf(merged) != ledger.ReasonUserErased {
			t.Fatalf("round %d: %v", round, merged)
		}
		for _, id := range ids {
			got := standing(t, s, id)
			if want := merged == nil || id == erased; got.State.Erased != want || got.State.MergedInto != "" || len(got.Deferred) == 1 == want {
				t.Errorf("round %d: %s was erased, the merge: %v, and %s is %+v", round, erased, merged, id, got.State)
			}
		}
		equal(t, "aliases", aliases(t, s, ids[1]), []string(nil))
	}
}

// A report that comes during a merge counts once, as one of the person.
func testMergeRacesReports(t *testing.T, s Store) {
	for round := range mergeRounds {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		var reports []notify.Report
		for i := range 6 {
			d := fold(t, s, []string{a, b}[i%2], notify.Now, start+engine.Millis(i))
			reports = append(reports, delivered(&d, start+9, notify.Push))
		}
		var answers []error
		must(t, raceWithMerge(s, a, b, func() {
			for i := range reports {
				answers = append(answers, s.Apply(ctx, reports[i:i+1])...)
			}
		}))
		must(t, errors.Join(answers...))
		got := standing(t, s, b)
		if got.Responses == nil || got.Responses.Types[notify.Update].Delivered != float64(len(reports)) {
			t.Errorf("round %d: responses are %+v, want %d deliveries", round, got.Responses, len(reports))
		}
		if r := standing(t, s, a).Responses; r != nil {
			t.Errorf("round %d: an alias has responses: %+v", round, r)
		}
		verified(t, s, b, len(reports))
	}
}
