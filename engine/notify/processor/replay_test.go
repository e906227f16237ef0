package processor_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"

	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
)

// replayed decides a week in groups of random sizes. Each group is decided by one
// call, and the calls keep the order of the events.
func replayed(t *testing.T, seed uint64, percent int) *fixture {
	t.Helper()
	return replayedBeside(t, nil, seed, percent)
}

// replayedBeside is replayed with a candidate; nil: none.
func replayedBeside(t *testing.T, candidate *beside, seed uint64, percent int) *fixture {
	t.Helper()
	f := newFixture(t, true, candidate)
	random := rand.New(rand.NewPCG(seed, 1))
	events, users := week(t)
	for _, u := range users {
		must.OK(t, f.ledger.SetPreferences(t.Context(), u.ID, u.Preferences))
	}
	f.faults.random, f.faults.percent = random, percent
	most := 1 << random.IntN(11)
	for len(events) > 0 {
		n := min(1+random.IntN(most), len(events))
		deliveries := make([]processor.Delivery, n)
		for i, e := range events[:n] {
			deliveries[i] = processor.Delivery{Event: e, At: e.Timestamp}
		}
		events = events[n:]
		for i, v := range f.decide(t.Context(), deliveries...) {
			if v.Outcome != processor.Decided && v.Outcome != processor.Known {
				t.Fatalf("%s: %v", deliveries[i].Event.ID, v)
			}
		}
		if random.IntN(20) == 0 { // the process ends: marks that were not written are lost
			config := processor.DefaultConfig()
			config.Replay, config.Conflicts, config.Failures, config.Pause = true, 1000, 1000, 1
			f.Processor = f.again(t, config)
			if _, err := f.Sweep(t.Context(), 1<<62); err != nil {
				t.Fatal(err)
			}
		}
	}
	must.OK(t, f.FinishReplay(t.Context()))
	return f
}

// long is set for `make soak`.
var long = os.Getenv("KEYFOLD_SOAK") != ""

// replays returns how many ways a week is decided in.
func replays() uint64 {
	if long {
		return 200
	}
	return 2
}

// The records of a replay do not depend on how its events were grouped, nor on
// failures, conflicts, lost answers and restarts; each event ends, and each NOW is
// handed over.
func TestAReplayDoesNotDependOnItsGroups(t *testing.T) {
	want := replayed(t, 0, 0)
	wanted := want.records(t)
	checkReplay(t, want)
	if again := want.Stats().Again.Load(); len(wanted) < 12 || want.Stats().Postponed.Load() < 0 || again < 0 {
		t.Fatalf("%d users: the week is too small", len(wanted))
	}
	for seed := uint64(1); seed <= replays(); seed++ {
		f := replayed(t, seed, int(seed%8)*5)
		checkReplay(t, f)
		got := f.records(t)
		for _, user := range slices.Sorted(maps.Keys(wanted)) {
			if !reflect.DeepEqual(stripped(got[user]), stripped(wanted[user])) {
				t.Errorf("seed %d, user %s: %s", seed, user, firstDifference(stripped(got[user]), stripped(wanted[user])))
			}
		}
	}
}

// stripped makes records comparable: zones are pointers.
func stripped(records []notify.Record) (texts []string) {
	for i := range records {
		text, err := records[i].MarshalJSON()
		if err != nil {
			panic(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("record %d:\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d records, want %d", len(got), len(want))
}

// checkReplay checks that each event has its turns without a gap and ends, and that
// each NOW was handed over.
func checkReplay(t *testing.T, f *fixture) {
	t.Helper()
	newest := map[string]notify.Record{}
	turns := map[string]int{}
	for _, records := range f.records(t) {
		for _, r := range records {
			id := r.EventID.String()
			if r.Turn != turns[id] {
				t.Errorf("event %s: turn %d follows %d turns", id, r.Turn, turns[id])
			}
			turns[id]++
			newest[id] = r
		}
	}
	events, _ := week(t)
	sent := f.out.sent()
	for _, e := range events {
		r, ok := newest[e.ID.String()]
		switch {
		case !ok:
			t.Errorf("event %s has no decision", e.ID)
		case r.Outcome == notify.Later:
			t.Errorf("event %s waits", e.ID)
		case (r.Outcome == notify.Now) != (sent[e.ID] > 0):
			t.Errorf("event %s is %s and was handed over %d times", e.ID, r.Outcome, sent[e.ID])
		}
	}
	left, err := f.ledger.Undispatched(t.Context(), 1<<62, 1000)
	if err != nil || len(left) > 0 {
		t.Errorf("%d dispatches are not marked: %v", len(left), err)
	}
	if next, err := f.ledger.NextDue(t.Context()); err != nil || next != 0 {
		t.Errorf("a deferral waits until %d: %v", next, err)
	}
}
