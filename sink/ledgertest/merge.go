package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// folded commits a decision of a new event as a processor does: the state is the fold.
func folded(l notify.Ledger, s *notify.Standing, user string, outcome notify.Outcome, at engine.Millis) (notify.Decided, error) {
	state := &notify.State{}
	if s.State != nil {
		state = s.State.Clone()
	}
	d := Decide(Event(user, notify.Update, at), s.Version+1, 0, outcome, max(at, state.DecidedAt))
	d.Record.Facts.Horizon = notify.MaxHorizon
	state.Fold(&d.Record)
	return d, commit(l, notify.Change{User: user, Version: s.Version, State: state, Decided: []notify.Decided{d}})
}

// fold commits a decision that must be written.
func fold(t failer, l notify.Ledger, user string, outcome notify.Outcome, at engine.Millis) notify.Decided {
	t.Helper()
	s := standing(t, l, user)
	d, err := folded(l, &s, user, outcome, at)
	must(t, err)
	return d
}

func merge(t failer, s Store, alias, into string) ledger.Merged {
	t.Helper()
	done, err := ledger.MergeUsers(ctx, s, alias, into, start+minute)
	must(t, err)
	return done
}

func aliases(t failer, s Store, user string) (ids []string) {
	t.Helper()
	all, err := s.Aliases(ctx, user)
	must(t, err)
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	return ids
}

// verified expects that records and state of a user agree.
func verified(t failer, s Store, user string, n int) {
	t.Helper()
	v, err := ledger.Verify(ctx, s, user, 0)
	must(t, err)
	if len(v.Differences) > 0 || v.Records != n {
		t.Fatalf("user %s with %d records, want %d: %q", user, v.Records, n, v.Differences)
	}
}

// All that both users had is one person's, in the order in which it was decided.
func testMerge(t *testing.T, s Store) {
	own := preferences()
	must(t, s.SetPreferences(ctx, "a", own))
	must(t, s.SetPreferences(ctx, "b", notify.Preferences{Paused: true, Caps: notify.Caps{9, 1, 9}}))
	b1, a1 := fold(t, s, "b", notify.Now, start+1), fold(t, s, "a", notify.Now, start+2)
	b2, a2 := fold(t, s, "b", notify.Later, start+3), fold(t, s, "a", notify.Later, start+3)
	b3 := fold(t, s, "b", notify.Now, start+5)
	apply(t, s, delivered(&b1, start+9, notify.Push), delivered(&a1, start+9, notify.Push))
	other := fold(t, s, "c", notify.Later, start)
	before := standing(t, s, "a")

	equal(t, "what was done", merge(t, s, "a", "b"), ledger.Merged{Alias: "a", Into: "b", Decisions: 2, Waiting: 1})

	alias := standing(t, s, "a", a1.Event.ID)
	equal(t, "the alias", alias, notify.Standing{
		Version: before.Version + 1, State: &notify.State{MergedInto: "b", DecidedAt: start + 5},
		Known: []notify.Known{asKey(a1, "b")},
	})
	got := standing(t, s, "b", idsOf(a1, b2)...)
	equal(t, "version", got.Version, 3+4+1)
	equal(t, "preferences", got.Preferences, (&notify.Preferences{Paused: true, Caps: notify.Caps{9, 1, 9}}).Join(&own))
	equal(t, "keys", got.Known, []notify.Known{asKey(a1, "b"), asKey(b2, "b")})
	equal(t, "sends", got.State.Sends, []engine.Millis{start + 1, start + 2, start + 5})
	equal(t, "deliveries", got.Responses.Types[notify.Update].Delivered, 2)
	waiting := slices.Clone(idsOf(a2, b2))
	slices.SortFunc(waiting, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	equal(t, "deferrals", dueIDs(got.Deferred), waiting)
	for _, d := range got.Deferred {
		equal(t, "user of a deferral", d.Event.User(), "b")
	}
	all := records(t, s, ledger.Filter{User: "b", Oldest: true})
	equal(t, "records", idsOf(all...), idsOf(b1, a1, b2, a2, b3))
	for i := range all {
		if r := &all[i].Record; r.Seq != int64(i)+1 || r.UserID != "b" || all[i].Event.User() != "b" || r.EventID == a1.Event.ID && all[i].Event.UserID != "a" {
			t.Errorf("record %d: seq %d of %s, event of %s", i, r.Seq, r.UserID, all[i].Event.User())
		}
	}
	verified(t, s, "b", 5)
	equal(t, "records of the alias", len(records(t, s, ledger.Filter{User: "a"})), 0)
	equal(t, "aliases", aliases(t, s, "b"), []string{"a"})

	// It goes on as one person.
	apply(t, s, delivered(&b3, start+10, notify.Push), opened(&a1, start+11))
	equal(t, "opened", standing(t, s, "b").Responses.Types[notify.Update].Opened, 1)
	fold(t, s, "b", notify.Now, start+20)
	verified(t, s, "b", 6)
	due := claim(t, s, start+2*minute)
	equal(t, "due", len(due), 3)
	for _, d := range due {
		if want := map[bool]string{true: "c", false: "b"}[d.Event.ID == other.Event.ID]; d.Event.User() != want {
			t.Errorf("a claimed deferral is of %s, want %s", d.Event.User(), want)
		}
	}
	for _, d := range undispatched(t, s, start+minute, 9) {
		equal(t, "user of a dispatch", d.Records[0].UserID, "b")
	}
	_, errRead := s.Preferences(ctx, "a")
	_, errWrite := s.UpdatePreferences(ctx, "a", ledger.AnyVersion, own)
	for _, err := range []error{errRead, errWrite} {
		if m, ok := errors.AsType[*ledger.MergedError](err); !ok || m.Into != "b" {
			t.Errorf("preferences of the alias: %v", err)
		}
	}
}

// asKey is the key that a decision leaves, of another user.
func asKey(d notify.Decided, user string) notify.Known {
	k := key(d, false)
	k.User = user
	return k
}

func opened(d *notify.Decided, at engine.Millis) notify.Report {
	return notify.Report{Decision: d.Record.DecisionID, Status: notify.Delivered, Channel: notify.Push, At: at, Read: notify.WasOpened}
}

// A change that was made from preferences of either is refused after the merge.
func testMergeOfPreferences(t *testing.T, s Store) {
	for user, changes := range map[string]int{"a": 5, "b": 1, "c": 2} {
		for range changes {
			must(t, s.SetPreferences(ctx, user, preferences()))
		}
	}
	for _, c := range []struct {
		alias, into string
		want        int64
	}{{"a", "b", 6}, {"c", "b", 7}, {"b", "new", 8}} {
		merge(t, s, c.alias, c.into)
		p, err := s.Preferences(ctx, c.into)
		must(t, err)
		equal(t, "version", p.Version, c.want)
	}
}

// Merged users are one whatever was stored of them: nothing, preferences alone.
func testMergeOfNothing(t *testing.T, s Store) {
	own := preferences()
	must(t, s.SetPreferences(ctx, "only preferences", own))
	merge(t, s, "new", "newer")
	merge(t, s, "only preferences", "newer")
	equal(t, "preferences", standing(t, s, "newer").Preferences, own)
	equal(t, "aliases", aliases(t, s, "newer"), []string{"new", "only preferences"})
	if got := standing(t, s, "new"); got.State == nil || got.State.MergedInto != "newer" {
		t.Errorf("an alias of which nothing was stored: %+v", got)
	}
	fold(t, s, "newer", notify.Now, start)
	verified(t, s, "newer", 1)
}

// A decision that was made before a merge conflicts, of either user, also of one of whom nothing was stored.
// Of an event that is the person's by then the answer is that it is another user's.
func testMergeConflicts(t *testing.T, s Store) {
	moved := fold(t, s, "a", notify.Later, start)
	fold(t, s, "b", notify.Now, start)
	before := map[string]notify.Standing{}
	for _, user := range []string{"a", "b", "new"} {
		before[user] = standing(t, s, user)
	}
	merge(t, s, "a", "b")
	merge(t, s, "new", "b")
	for user, stale := range before {
		_, err := folded(s, &stale, user, notify.Later, start+1)
		conflict(t, err)
	}
	stale := before["a"]
	d := Decide(moved.Event, stale.Version+1, 1, notify.Never, start+2)
	state := stale.State.Clone()
	state.DecidedAt = start + 2
	anotherUser(t, commit(s, notify.Change{User: "a", Version: stale.Version, State: state, Decided: []notify.Decided{d}}))
	_, err := s.Merge(ctx, &notify.Merge{Alias: "c", Into: "b", At: start, IntoVersion: before["b"].Version, State: &notify.State{}})
	conflict(t, err)
	equal(t, "deferrals", dueIDs(standing(t, s, "b").Deferred), idsOf(moved))
	verified(t, s, "b", 2)
}

// To merge again changes nothing; an alias of an alias is one of the person.
func testMergeAgain(t *testing.T, s Store) {
	fold(t, s, "a", notify.Now, start)
	fold(t, s, "b", notify.Later, start+1)
	fold(t, s, "c", notify.Now, start+2)
	merge(t, s, "a", "b")
	before := standing(t, s, "b")
	equal(t, "again", merge(t, s, "a", "b").Already, true)
	equal(t, "the user", standing(t, s, "b"), before)
	merge(t, s, "d", "a") // which is b
	merge(t, s, "b", "c")
	equal(t, "aliases", aliases(t, s, "c"), []string{"a", "d", "b"})
	equal(t, "aliases of an alias", aliases(t, s, "b"), []string(nil))
	for _, user := range []string{"a", "b", "d"} {
		equal(t, user, standing(t, s, user).State.MergedInto, "c")
	}
	verified(t, s, "c", 3)
	must(t, s.Forget(ctx, "erased", start))
	for _, c := range []struct{ alias, into, reason string }{
		{"c", "c", ledger.ReasonSameUser},
		{"c", "a", ledger.ReasonSameUser},
		{"a", "x", ledger.ReasonIsAlias},
		{"erased", "c", ledger.ReasonUserErased},
		{"c", "erased", ledger.ReasonUserErased},
	} {
		_, err := ledger.MergeUsers(ctx, s, c.alias, c.into, start)
		refused(t, err, c.reason)
	}
}

// Who erases one id of a person erases all.
func testMergeForget(t *testing.T, s Store) {
	for round, named := range []string{"a", "b"} {
		name := func(id string) string { return fmt.Sprint(id, " ", round) }
		a, b := fold(t, s, name("a"), notify.Now, start), fold(t, s, name("b"), notify.Later, start+1)
		merge(t, s, name("a"), name("b"))
		merge(t, s, name("c"), name("a"))
		must(t, s.Forget(ctx, name(named), start+2))
		for _, id := range []string{"a", "b", "c"} {
			got := standing(t, s, name(id))
			if got.State == nil || !got.State.Erased || got.State.MergedInto != "" || len(got.Deferred) > 0 {
				t.Errorf("%s of %s is %+v", id, named, got)
			}
		}
		for _, key := range standing(t, s, name("b"), idsOf(a, b)...).Known {
			if !key.Of(name("b")) || !key.Erased() {
				t.Errorf("a key of an erased user: %+v", key)
			}
		}
		for _, d := range records(t, s, ledger.Filter{Event: a.Event.ID}) {
			if d.Event != nil || d.Record.UserID != "" {
				t.Errorf("a record of an erased user: %+v", d)
			}
		}
		equal(t, "aliases", aliases(t, s, name("b")), []string(nil))
	}
	equal(t, "deferrals", nextDue(t, s), 0)
}

// Decisions and merges at once: each decision that was written is one of the person, and the
// state is what the records come to.
func testMergeRace(t *testing.T, s Store) {
	for round := range 8 {
		ids := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
		var (
			group sync.WaitGroup
			mu    sync.Mutex
			made  int
		)
		for _, id := range ids {
			group.Go(func() {
				for n := 0; n < 12; {
					now := standing(t, s, id)
					user := id
					if now.State != nil && now.State.MergedInto != "" {
						user = now.State.MergedInto
						now = standing(t, s, user)
					}
					_, err := folded(s, &now, user, notify.Later, start+engine.Millis(n))
					if errors.Is(err, engine.ErrConflict) {
						continue
					}
					if err != nil {
						t.Errorf("commit: %v", err)
						return
					}
					mu.Lock()
					made++
					mu.Unlock()
					n++
				}
			})
		}
		group.Go(func() {
			if _, err := ledger.MergeUsers(ctx, s, ids[0], ids[1], start); err != nil {
				t.Errorf("merge: %v", err)
			}
		})
		group.Wait()
		if t.Failed() {
			return
		}
		verified(t, s, ids[1], made)
		equal(t, "deferrals", len(standing(t, s, ids[1]).Deferred), made)
	}
}
