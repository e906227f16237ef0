package ledgertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/sink/ledger"
)

var allRecords = ledger.Filter{Oldest: true}

// preferences returns preferences that set everything.
func preferences() notify.Preferences {
	zone, err := quiet.LoadZone("Europe/Berlin")
	if err != nil {
		panic(err) // of the zone data
	}
	return notify.Preferences{
		Zone: zone, Quiet: quiet.Hours{{From: 22 * 60, To: 7 * 60}, {From: 12 * 60, To: 13 * 60, Days: 1<<6 | 1<<7}},
		Muted: []notify.EventType{notify.Promo, notify.Digest}, Channels: []notify.Channel{notify.InApp, notify.Push},
		Caps: notify.Caps{1, 2, 3},
	}
}

// A change of preferences raises the version: what was decided with the former ones
// loses, as does a cached copy.
func testPreferences(t *testing.T, s Store) {
	own := preferences()
	must(t, s.SetPreferences(ctx, "new", own))
	got := standing(t, s, "new")
	equal(t, "a user with preferences only", got, notify.Standing{Version: 1, Preferences: own, Known: []notify.Known{}})
	conflict(t, commit(s, change("new", 0, Decide(Event("new", notify.Update, start), 1, 0, notify.Now, start))))
	decide(t, s, "new", 1, notify.Now, start)
	equal(t, "preferences", standing(t, s, "new").Preferences, own)

	decide(t, s, "a", 0, notify.Now, start)
	must(t, s.SetPreferences(ctx, "a", own))
	conflict(t, commit(s, change("a", 1, Decide(Event("a", notify.Update, start), 2, 0, notify.Now, start))))
	decide(t, s, "a", 2, notify.Now, start+1)
	must(t, s.SetPreferences(ctx, "a", notify.Preferences{}))
	got = standing(t, s, "a")
	equal(t, "preferences", got.Preferences, notify.Preferences{})
	if got.Version != 4 || got.State.DecidedAt != start+1 {
		t.Errorf("the user is %+v", got)
	}
}

// stored returns the preferences of the user a.
func stored(t *testing.T, s Store) ledger.Preferences {
	t.Helper()
	p, err := s.Preferences(ctx, "a")
	must(t, err)
	return p
}

// A change of preferences is made from one version of them alone. One that is refused leaves
// the preferences, and the user's version.
func testPreferencesOfAVersion(t *testing.T, s Store) {
	own := preferences()
	equal(t, "none", stored(t, s), ledger.Preferences{})
	update := func(ifVersion, want int64, own notify.Preferences) {
		t.Helper()
		version, err := s.UpdatePreferences(ctx, "a", ifVersion, own)
		must(t, err)
		equal(t, "version", version, want)
		equal(t, "preferences", stored(t, s), ledger.Preferences{Own: own, Version: want})
	}
	refused := func(ifVersion, present int64) {
		t.Helper()
		before := standing(t, s, "a")
		version, err := s.UpdatePreferences(ctx, "a", ifVersion, notify.Preferences{Paused: true})
		other, ok := errors.AsType[*ledger.VersionError](err)
		if !ok || other.Present != present || version != 0 {
			t.Errorf("if %d, where %d is stored: %d, %v", ifVersion, present, version, err)
		}
		equal(t, "the user", standing(t, s, "a"), before)
	}
	refused(1, 0)
	update(0, 1, own)
	refused(0, 1)
	refused(2, 1)
	own.Paused, own.MutedUntil, own.SnoozedUntil, own.Digests = true, start+1, start+2, []quiet.Clock{8 * 60, 18 * 60}
	own.Topics = map[string]notify.TopicPreference{"offers": {MutedUntil: start + 3}}
	must(t, json.Unmarshal([]byte(`{"plan":"pro","segments":["vip"]}`), &own.Attributes))
	update(1, 2, own)
	update(ledger.AnyVersion, 3, notify.Preferences{})
	must(t, s.SetPreferences(ctx, "a", own))
	refused(3, 4)
	decide(t, s, "a", 4, notify.Now, start) // which is no change of them
	equal(t, "after a decision", stored(t, s), ledger.Preferences{Own: own, Version: 4})
	must(t, s.Forget(ctx, "a", start))
	equal(t, "of an erased user", stored(t, s), ledger.Preferences{Erased: true})
	for _, ifVersion := range []int64{0, 4, ledger.AnyVersion} {
		if _, err := s.UpdatePreferences(ctx, "a", ifVersion, own); engine.ReasonOf(err) != ledger.ReasonUserErased {
			t.Errorf("preferences of an erased user: %v", err)
		}
	}
}

// Of changes that are made from one version at once, one is written.
func testPreferencesInParallel(t *testing.T, s Store) {
	const writers, each = 4, 8
	var group sync.WaitGroup
	var written atomic.Int64
	for range writers {
		group.Go(func() {
			for done := 0; done < each; {
				before, err := s.Preferences(ctx, "a")
				if err == nil {
					before.Own.Caps[0]++
					_, err = s.UpdatePreferences(ctx, "a", before.Version, before.Own)
				}
				if _, other := errors.AsType[*ledger.VersionError](err); other {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				written.Add(1)
				done++
			}
		})
	}
	group.Wait()
	equal(t, "preferences", stored(t, s), ledger.Preferences{Own: notify.Preferences{Caps: notify.Caps{writers * each}}, Version: writers * each})
}

func testForget(t *testing.T, s Store) {
	must(t, s.SetPreferences(ctx, "a", preferences()))
	now, later := decide(t, s, "a", 1, notify.Now, start), decide(t, s, "a", 2, notify.Later, start+9)
	fullRecord(&later)
	other := decide(t, s, "b", 0, notify.Later, start+1)
	must(t, s.Forget(ctx, "a", start+5))
	must(t, s.Forget(ctx, "unknown", start+5))
	got := standing(t, s, "a", now.Event.ID)
	equal(t, "the tombstone", got, notify.Standing{
		State: &notify.State{Erased: true, DecidedAt: start + 9}, Version: 4, Known: []notify.Known{keyOfErased(now, true)},
	})
	equal(t, "the tombstone of a user without records", standing(t, s, "unknown"), notify.Standing{
		State: &notify.State{Erased: true, DecidedAt: start + 5}, Version: 1, Known: []notify.Known{},
	})
	equal(t, "deferrals", dueIDs(claim(t, s, start+2*minute)), idsOf(other))
	equal(t, "undispatched", undispatched(t, s, start+minute, 9), nil)
	equal(t, "records of the user", records(t, s, ledger.Filter{User: "a"}), nil)
	equal(t, "records", records(t, s, ledger.Filter{Event: now.Event.ID}), []notify.Decided{ledger.Blank(now)})

	must(t, s.Forget(ctx, "a", start+6)) // again
	equal(t, "version", standing(t, s, "a").Version, 4)
	if err := s.SetPreferences(ctx, "a", preferences()); engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != ledger.ReasonUserErased {
		t.Errorf("preferences of an erased user: %v", err)
	}
	// A later event is decided, and its text is not kept.
	late := Decide(Event("a", notify.Update, start), 5, 0, notify.Never, start+9)
	late.Record.Reasons = []string{notify.ReasonUserErased}
	c := change("a", 4, late)
	c.State = &notify.State{Erased: true, DecidedAt: start + 9}
	must(t, commit(s, c))
	equal(t, "known", known(t, commit(s, c)), []notify.Known{keyOfErased(late, false)})
	equal(t, "records", records(t, s, ledger.Filter{Event: late.Event.ID}), []notify.Decided{ledger.Blank(late)})
	equal(t, "preferences", standing(t, s, "a").Preferences, notify.Preferences{})
}

// A decision that was made before the erasure brings nothing back.
func testForgetConflicts(t *testing.T, s Store) {
	d := decide(t, s, "a", 0, notify.Later, start)
	must(t, s.Forget(ctx, "a", start+1))
	must(t, s.Forget(ctx, "new", start+1))
	conflict(t, commit(s, change("a", 1, Decide(d.Event, 2, 1, notify.Later, start+minute))))
	conflict(t, commit(s, change("new", 0, Decide(Event("new", notify.Update, start), 1, 0, notify.Later, start))))
	must(t, s.Release(ctx, idsOf(d)))
	equal(t, "next due", nextDue(t, s), 0)
	for _, user := range []string{"a", "new"} {
		if !standing(t, s, user).State.Erased {
			t.Errorf("user %s is back", user)
		}
	}
}

func testForgetRace(t *testing.T, s Store) {
	for round := range 12 {
		user := fmt.Sprint("user ", round)
		for version := range int64(3) {
			decide(t, s, user, version, notify.Later, start)
		}
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for version := int64(3); version < 1000; version++ {
					err := commit(s, change(user, version, Decide(Event(user, notify.Update, start), version+1, 0, notify.Later, start)))
					if errors.Is(err, engine.ErrConflict) && standing(t, s, user).State.Erased {
						return
					}
				}
				t.Errorf("a user is not erased, or decisions do not conflict")
			})
		}
		group.Go(func() {
			if err := s.Forget(ctx, user, start+1); err != nil {
				t.Errorf("Forget: %v", err)
			}
		})
		group.Wait()
		got := standing(t, s, user)
		if !got.State.Erased || len(got.Deferred) != 0 || len(records(t, s, ledger.Filter{User: user})) != 0 {
			t.Fatalf("the erased user is %+v", got)
		}
	}
	equal(t, "next due", nextDue(t, s), 0)
}

func testRecords(t *testing.T, s Store) {
	var all []notify.Decided
	for i := range 600 { // of several pages
		user := string(rune('a' + i%3))
		all = append(all, decide(t, s, user, int64(i/3), notify.Now, start+engine.Millis(i)))
	}
	last := all[len(all)-1]
	second := Decide(last.Event, 201, 1, notify.Never, start+600)
	must(t, commit(s, change("c", 200, second)))
	all = append(all, second)
	var ofB []notify.Decided
	for i := 1; i < 600; i += 3 {
		ofB = append(ofB, all[i])
	}
	reversed := func(all []notify.Decided) (back []notify.Decided) {
		for i := range all {
			back = append(back, all[len(all)-1-i])
		}
		return back
	}
	for name, test := range map[string]struct {
		filter ledger.Filter
		want   []notify.Decided
	}{
		"all":       {ledger.Filter{Oldest: true}, all},
		"newest":    {ledger.Filter{}, reversed(all)},
		"limit":     {ledger.Filter{Limit: 300}, reversed(all)[:300]},
		"pages":     {ledger.Filter{Limit: 30, Page: 7}, reversed(all)[:30]},
		"one":       {ledger.Filter{Limit: 1}, []notify.Decided{second}},
		"user":      {ledger.Filter{User: "b", Oldest: true}, ofB},
		"the last":  {ledger.Filter{User: "b", Limit: 2}, reversed(ofB)[:2]},
		"event":     {ledger.Filter{Event: last.Event.ID}, []notify.Decided{second, last}},
		"both":      {ledger.Filter{Event: last.Event.ID, User: "a"}, nil},
		"times":     {ledger.Filter{From: start + 5, To: start + 8, Oldest: true}, all[5:8]},
		"user then": {ledger.Filter{User: "b", From: start + 2, To: start + 5}, all[4:5]},
		"later":     {ledger.Filter{From: start + 601}, nil},
	} {
		equal(t, name, records(t, s, test.filter), test.want)
	}
	for _, err := range s.Records(ctx, ledger.Filter{}) {
		must(t, err)
		break
	}
	for _, want := range []*notify.Decided{&all[0], &second} {
		got, err := s.Decision(ctx, want.Record.DecisionID)
		must(t, err)
		equal(t, "decision", got, want)
	}
	if got, err := s.Decision(ctx, id(start)); err != nil || got != nil {
		t.Errorf("a decision that is not there: %v, %v", got, err)
	}
	ids := []uuid.UUID{second.Record.DecisionID, id(start), uuid.Max, all[0].Record.DecisionID, second.Record.DecisionID}
	got, err := s.Decisions(ctx, ids)
	must(t, err)
	slices.SortFunc(got, func(a, b notify.Decided) int { return cmp.Compare(a.Record.DecidedAt, b.Record.DecidedAt) })
	equal(t, "decisions", got, []notify.Decided{all[0], second})
	if got, err := s.Decisions(ctx, nil); err != nil || len(got) > 0 {
		t.Errorf("no decisions: %v, %v", got, err)
	}
}

func testCounts(t *testing.T, s Store) {
	counts := func(want []ledger.Count) {
		t.Helper()
		got, err := s.Counts(ctx, ledger.Span{})
		must(t, err)
		if len(got)+len(want) > 0 {
			equal(t, "counts", got, want)
		}
	}
	counts(nil)
	decide(t, s, "a", 0, notify.Now, start)
	decide(t, s, "a", 1, notify.Later, start)
	decide(t, s, "b", 0, notify.Later, start)
	vip := Decide(Event("b", notify.Message, start), 2, 0, notify.Later, start)
	vip.Record.Reasons = []string{"VIP \"quoted\"", notify.ReasonCap1H}
	must(t, commit(s, change("b", 1, vip)))
	want := []ledger.Count{
		{Type: notify.Message, Outcome: notify.Later, Reason: "VIP \"quoted\"", N: 1},
		{Type: notify.Update, Outcome: notify.Now, Reason: notify.ReasonScoreHigh, N: 1},
		{Type: notify.Update, Outcome: notify.Later, Reason: notify.ReasonCap5M, N: 2},
	}
	counts(want)
	must(t, s.Forget(ctx, "b", start))
	counts(want)
}

func testEndedContext(t *testing.T, s Store) {
	d := decide(t, s, "a", 0, notify.Now, start)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, load := s.Load(ended, []notify.Ask{{User: "a"}})
	_, find := s.Find(ended, []uuid.UUID{d.Record.DecisionID})
	_, sweep := s.Undispatched(ended, start+1, 1)
	_, dispatches := s.Dispatches(ended, []notify.Known{key(d, false)})
	_, due := s.Claim(ended, start+minute, start+2*minute, 1)
	_, next := s.NextDue(ended)
	_, unreported := s.Unreported(ended, start+1)
	_, decision := s.Decision(ended, d.Record.DecisionID)
	_, own := s.Preferences(ended, "a")
	_, merged := s.Merge(ended, &notify.Merge{Alias: "a", Into: "b", AliasVersion: 1, State: &notify.State{}})
	_, aliases := s.Aliases(ended, "a")
	_, decisions := s.Decisions(ended, []uuid.UUID{d.Record.DecisionID})
	for name, err := range map[string]error{
		"Load": load, "Find": find, "Undispatched": sweep, "Dispatches": dispatches, "Claim": due, "NextDue": next, "Decision": decision,
		"Unreported": unreported, "Decisions": decisions, "Preferences": own, "Merge": merged, "Aliases": aliases,
		"Commit":  s.Commit(ended, []notify.Change{change("a", 1, Decide(Event("a", notify.Update, start), 2, 0, notify.Now, start))}, Dispatched(idsOf(d)...))[0],
		"marks":   errors.Join(s.Commit(ended, nil, Dispatched(idsOf(d)...))...),
		"Apply":   s.Apply(ended, []notify.Report{delivered(&d, start, notify.Push)})[0],
		"Release": s.Release(ended, idsOf(d)), "Forget": s.Forget(ended, "a", start),
		"SetPreferences": s.SetPreferences(ended, "a", preferences()),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrUnknown) {
			t.Errorf("%s: %v, want the context's error", name, err)
		}
	}
	for _, err := range s.Records(ended, ledger.Filter{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Records: %v", err)
		}
	}
	got := standing(t, s, "a", d.Event.ID)
	if got.Version != 1 || got.State.Erased || got.Known[0].Dispatched {
		t.Errorf("calls whose context had ended left %+v", got)
	}
}

func testDurability(t *testing.T, s Store) {
	if s.Reopen == nil {
		return
	}
	must(t, s.SetPreferences(ctx, "a", preferences()))
	now, later := decide(t, s, "a", 1, notify.Now, start), decide(t, s, "a", 2, notify.Later, start)
	must(t, s.Forget(ctx, "b", start))
	claim(t, s, start+minute)
	before, erased := standing(t, s, "a", idsOf(now, later)...), standing(t, s, "b")
	s = s.Reopen()
	equal(t, "a user", standing(t, s, "a", idsOf(now, later)...), before)
	equal(t, "an erased user", standing(t, s, "b"), erased)
	equal(t, "records", records(t, s, allRecords), []notify.Decided{now, later})
	equal(t, "the lease", nextDue(t, s), start+2*minute)
	equal(t, "undispatched", len(undispatched(t, s, start+1, 9)), 1)
}
