package ledgertest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

const minute = engine.Millis(60_000)

// A deferral lives until the dispatch of its NOW is marked: until then, a process
// that died has left something to be found.
func testDeferralUntilNow(t *testing.T, s Store) {
	first := decide(t, s, "a", 0, notify.Later, start)
	if due := claim(t, s, start+minute-1); len(due) != 0 {
		t.Fatalf("claimed before its time: %v", due)
	}
	due := claim(t, s, start+minute)
	equal(t, "claimed", due, []notify.Due{{Event: first.Event, Turn: notify.Turn{Number: 1}, DueAt: start + minute}})

	second := Decide(first.Event, 2, 1, notify.Later, start+minute)
	second.Record.Spent = []uuid.UUID{id(1)}
	must(t, commit(s, change("a", 1, second)))
	equal(t, "next due", nextDue(t, s), start+2*minute)
	due = claim(t, s, start+2*minute)
	equal(t, "claimed", due, []notify.Due{{
		Event: first.Event, Turn: notify.Turn{Number: 2, Spent: second.Record.Spent}, DueAt: start + 2*minute,
	}})

	third := Decide(first.Event, 3, 2, notify.Now, start+2*minute)
	must(t, commit(s, change("a", 2, third)))
	equal(t, "next due", nextDue(t, s), start+3*minute) // the lease's end
	equal(t, "claimed again", claim(t, s, start+3*minute), due)
	equal(t, "known", known(t, commit(s, change("a", 3, Decide(first.Event, 4, 2, notify.Never, start+3*minute)))),
		[]notify.Known{key(third, false)})
	must(t, commit(s, notify.Change{User: "a", Version: 3}, first.Event.ID))
	equal(t, "next due", nextDue(t, s), 0)
	equal(t, "key", standing(t, s, "a", first.Event.ID).Known[0], key(third, true))
}

func testDeferralUntilNever(t *testing.T, s Store) {
	first, other := decide(t, s, "a", 0, notify.Later, start), decide(t, s, "a", 1, notify.Later, start+1)
	claim(t, s, start+2*minute)
	must(t, commit(s, change("a", 2, Decide(first.Event, 3, 1, notify.Never, start+2*minute))))
	equal(t, "claimed", dueIDs(claim(t, s, start+3*minute)), idsOf(other))
	e := Event("b", notify.Update, start) // deferred and ended in one change
	must(t, commit(s, change("b", 0, Decide(e, 1, 0, notify.Later, start), Decide(e, 2, 1, notify.Never, start))))
	if got := standing(t, s, "b"); len(got.Deferred) != 0 {
		t.Errorf("an event that has ended waits: %v", got.Deferred)
	}
}

func testLease(t *testing.T, s Store) {
	d := decide(t, s, "a", 0, notify.Later, start)
	lease := func(now, end engine.Millis, want ...notify.Decided) {
		t.Helper()
		due, err := s.Claim(ctx, now, end, 10)
		must(t, err)
		equal(t, "claimed", dueIDs(due), idsOf(want...))
		for i := range due {
			equal(t, "due at", due[i].DueAt, want[i].Record.DeferUntil)
		}
	}
	lease(start+minute, start+3*minute, d)
	lease(start+3*minute-1, start+9*minute)
	equal(t, "next due", nextDue(t, s), start+3*minute)
	lease(start+3*minute, start+4*minute, d)
	must(t, s.Release(ctx, idsOf(d)))
	equal(t, "next due", nextDue(t, s), start+minute)
	lease(start+minute, start+5*minute, d)
	must(t, s.Release(ctx, []uuid.UUID{id(start)})) // of no deferral
	lease(start+5*minute-1, start+6*minute)
}

func testClaimTakesTheOldest(t *testing.T, s Store) {
	var all []notify.Decided
	for i := range 7 {
		all = append(all, decide(t, s, string(rune('a'+i)), 0, notify.Later, start+engine.Millis(i*13%7)))
	}
	slices.SortFunc(all, func(a, b notify.Decided) int { return int(a.Record.DeferUntil - b.Record.DeferUntil) })
	equal(t, "next due", nextDue(t, s), start+minute)
	for _, n := range []int{3, 3, 0, 3} {
		due, err := s.Claim(ctx, start+2*minute, start+9*minute, n)
		must(t, err)
		n = min(n, len(all))
		equal(t, "claimed", dueIDs(due), idsOf(all[:n]...))
		all = all[n:]
	}
}

func testClaimTakesWholeDigests(t *testing.T, s Store) {
	digest := func(user, key string, slot engine.Millis, version int64) notify.Decided {
		t.Helper()
		d := Decide(Event(user, notify.Update, start), version+1, 0, notify.Later, start)
		d.Record.DigestKey, d.Record.Slot, d.Record.DeferUntil = key, slot, slot
		must(t, commit(s, change(user, version, d)))
		return d
	}
	slot := start + minute
	group := []notify.Decided{digest("a", "PROMO", slot, 0), digest("a", "PROMO", slot, 1), digest("a", "PROMO", slot, 2)}
	otherUser, otherKey := digest("b", "PROMO", slot, 0), digest("a", "UPDATE", slot, 3)
	otherSlot := digest("a", "PROMO", slot+1, 4)
	single := decide(t, s, "c", 0, notify.Later, start+3)

	due, err := s.Claim(ctx, slot+minute, slot+9*minute, 1)
	must(t, err)
	equal(t, "a digest", dueIDs(due), idsOf(group...))
	for i := range due {
		if due[i].DigestKey != "PROMO" || due[i].Slot != slot {
			t.Errorf("item %d is %+v", i, due[i])
		}
	}
	// An item that joins a leased digest is claimed alone: the lease holds.
	late := digest("a", "PROMO", slot, 5)
	due, err = s.Claim(ctx, slot+minute, slot+9*minute, 3)
	must(t, err)
	equal(t, "the next", dueIDs(due), idsOf(otherUser, otherKey, late))
	due, err = s.Claim(ctx, slot+minute, slot+9*minute, 3)
	must(t, err)
	equal(t, "the last", dueIDs(due), idsOf(otherSlot, single))
	equal(t, "none", dueIDs(claim(t, s, slot+9*minute-1)), []uuid.UUID{})

	// Quiet hours have moved two slots to one time.
	moved := notify.Change{User: "a", Version: 6}
	for _, d := range []notify.Decided{group[0], otherSlot} {
		moved.Postponed = append(moved.Postponed, notify.Postponement{EventID: d.Event.ID, DueAt: slot + 3*minute})
	}
	must(t, commit(s, moved))
	due, err = s.Claim(ctx, slot+3*minute, slot+9*minute, 1)
	must(t, err)
	equal(t, "a moved digest", dueIDs(due), idsOf(group[0], otherSlot))
}

// Postponed moves the deferral and nothing else, and only under the user's version.
// The longest key of a digest, of the longest user, in signs of four bytes.
func testLongestDigestKey(t *testing.T, s Store) {
	random := rand.NewChaCha8([32]byte{1}) // an index must not save bytes by compression
	user, key := make([]rune, notify.MaxUserRunes), make([]byte, notify.MaxGroupBytes)
	for i := range user {
		user[i] = 0x10000 + rune(random.Uint64()%0xffff)
	}
	for i := range key {
		key[i] = '0' + byte(random.Uint64()%64)
	}
	d := Decide(Event(string(user), notify.Update, start), 1, 0, notify.Later, start)
	d.Record.DigestKey, d.Record.Slot = string(key), d.Record.DeferUntil
	must(t, commit(s, change(string(user), 0, d)))
	due := claim(t, s, d.Record.DeferUntil)
	if equal(t, "claimed", dueIDs(due), idsOf(d)); len(due) == 1 && due[0].DigestKey != string(key) {
		t.Errorf("the key is %q", due[0].DigestKey)
	}
}

func testPostponed(t *testing.T, s Store) {
	d := decide(t, s, "a", 0, notify.Later, start)
	claim(t, s, start+minute)
	move := notify.Change{User: "a", Postponed: []notify.Postponement{{EventID: d.Event.ID, DueAt: start + 5*minute}}}
	conflict(t, commit(s, move))
	equal(t, "next due", nextDue(t, s), start+2*minute)
	before := standing(t, s, "a", d.Event.ID)
	move.Version, move.State = 1, &notify.State{DecidedAt: 1}
	must(t, commit(s, move))

	after := standing(t, s, "a", d.Event.ID)
	equal(t, "deferrals", after.Deferred, []notify.Due{{Event: d.Event, Turn: notify.Turn{Number: 1}, DueAt: start + 5*minute}})
	before.Deferred, after.Deferred = nil, nil
	equal(t, "all else", after, before)
	equal(t, "records", records(t, s, allRecords), []notify.Decided{d})
	equal(t, "next due", nextDue(t, s), start+5*minute)
	must(t, s.Release(ctx, idsOf(d)))
	equal(t, "next due after a release", nextDue(t, s), start+5*minute)
}

func testMarks(t *testing.T, s Store) {
	now, later, never := Decide(Event("a", notify.Update, start), 1, 0, notify.Now, start),
		Decide(Event("a", notify.Update, start), 2, 0, notify.Later, start), Decide(Event("a", notify.Update, start), 3, 0, notify.Never, start)
	must(t, commit(s, change("a", 0, now, later, never), now.Event.ID)) // also of the commit itself
	for range 2 {
		equal(t, "answers", s.Commit(ctx, nil, Dispatched(append(idsOf(never, later, now), id(start))...)), []error{})
		got := standing(t, s, "a", idsOf(now, later, never)...)
		equal(t, "keys", got.Known, []notify.Known{key(now, true), key(later, false), key(never, false)})
		equal(t, "deferrals", dueIDs(got.Deferred), idsOf(later))
	}
	// A later turn's NOW is not dispatched yet.
	second := Decide(later.Event, 4, 1, notify.Now, start+1)
	must(t, commit(s, change("a", 3, second)))
	equal(t, "key", standing(t, s, "a", later.Event.ID).Known[0], key(second, false))
}

func testUndispatched(t *testing.T, s Store) {
	var all []notify.Decided
	for i, at := range []engine.Millis{5, 1, 3, 2, 4} {
		user := string(rune('a' + i))
		all = append(all, decide(t, s, user, 0, notify.Now, start+at))
		decide(t, s, user, 1, notify.Later, start+at)
		decide(t, s, user, 2, notify.Never, start+at)
	}
	slices.SortFunc(all, func(a, b notify.Decided) int { return int(a.Record.DecidedAt - b.Record.DecidedAt) })
	expect := func(before engine.Millis, n int, want ...notify.Decided) {
		t.Helper()
		var dispatches []notify.Dispatch
		for _, d := range want {
			dispatches = append(dispatches, notify.Dispatch{
				ID: d.Event.ID, Records: []notify.Record{d.Record}, Events: []*notify.Notification{d.Event},
			})
		}
		equal(t, "undispatched", undispatched(t, s, before, n), dispatches)
	}
	expect(start+1, 10)
	expect(start+2, 10, all[0])
	expect(start+9, 3, all[:3]...)
	expect(start+9, 0)
	s.Commit(ctx, nil, Dispatched(idsOf(all[1], all[3])...))
	expect(start+9, 10, all[0], all[2], all[4])
	expect(math.MaxInt64, 10, all[0], all[2], all[4])
}

// A decision whose record was deleted, or whose user is erased, cannot be dispatched: it
// keeps no other one from being read.
func testUndispatchedWithoutRecords(t *testing.T, s Store) {
	if s.Drop == nil {
		t.Skip("the ledger keeps all records")
	}
	drop := func(d notify.Decided) { s.Drop(t, d.Record.DecisionID) }
	single, digest := decide(t, s, "a", 0, notify.Now, start), Decide(Event("b", notify.Promo, start), 1, 0, notify.Now, start+1)
	digest.Record.DigestID = id(1)
	must(t, commit(s, change("b", 0, digest)))
	erased := decide(t, s, "c", 0, notify.Now, start+2)
	left := decide(t, s, "d", 0, notify.Now, start+3)
	drop(single)
	drop(digest)
	must(t, s.Forget(ctx, "c", start+9))
	dispatches := []notify.Dispatch{{ID: left.Event.ID, Records: []notify.Record{left.Record}, Events: []*notify.Notification{left.Event}}}
	equal(t, "undispatched", undispatched(t, s, start+9, 1), dispatches)
	for _, d := range []notify.Decided{single, digest, erased} {
		found, err := s.Dispatches(ctx, []notify.Known{key(d, false)})
		if must(t, err); len(found) != 0 {
			t.Errorf("found %+v, want no dispatch of %s", found, d.Record.UserID)
		}
	}
	// The record of one item of a digest was deleted: the other items are dispatched.
	items := []notify.Decided{Decide(Event("e", notify.Promo, start), 1, 0, notify.Now, start+4), Decide(Event("e", notify.Promo, start), 2, 0, notify.Now, start+4)}
	both := id(2)
	items[0].Record.DigestID, items[1].Record.DigestID = both, both
	must(t, commit(s, change("e", 0, items...)))
	drop(items[0])
	equal(t, "of a digest", undispatched(t, s, start+9, 9), append(dispatches, notify.Dispatch{
		ID: both, Records: []notify.Record{items[1].Record}, Events: []*notify.Notification{items[1].Event},
	}))
}

func testUndispatchedDigest(t *testing.T, s Store) {
	digest := id(1)
	var items []notify.Decided
	for i := range int64(4) {
		d := Decide(Event("a", notify.Promo, start), i+1, 0, notify.Now, start)
		d.Record.DigestID = digest
		items = append(items, d)
	}
	items[2].Record.DigestID = uuid.Nil
	must(t, commit(s, change("a", 0, items...)))
	later := decide(t, s, "b", 0, notify.Now, start+1)
	one := func(d notify.Decided) notify.Dispatch {
		return notify.Dispatch{ID: d.Event.ID, Records: []notify.Record{d.Record}, Events: []*notify.Notification{d.Event}}
	}
	whole := notify.Dispatch{ID: digest}
	for _, i := range []int{0, 1, 3} {
		whole.Records, whole.Events = append(whole.Records, items[i].Record), append(whole.Events, items[i].Event)
	}
	equal(t, "a digest is whole", undispatched(t, s, start+9, 1), []notify.Dispatch{whole})
	equal(t, "a digest comes once", undispatched(t, s, start+9, 10), []notify.Dispatch{whole, one(items[2]), one(later)})
	s.Commit(ctx, nil, Dispatched(idsOf(items[0], items[1], items[3])...))
	equal(t, "the rest", undispatched(t, s, start+9, 10), []notify.Dispatch{one(items[2]), one(later)})
	// By key: in the order of the keys, each once, marked or not.
	lost := key(Decide(Event("a", notify.Promo, start), 9, 0, notify.Now, start), false)
	byKey := func(want []notify.Dispatch, keys ...notify.Known) {
		t.Helper()
		got, err := s.Dispatches(ctx, keys)
		must(t, err)
		if len(got)+len(want) > 0 {
			equal(t, "dispatches", got, want)
		}
	}
	byKey([]notify.Dispatch{one(later), whole, one(items[2])}, key(later, false), key(items[3], false), lost, key(items[2], false), key(items[0], true), key(later, false))
	byKey(nil, lost)
	byKey(nil)
	must(t, s.Forget(ctx, "a", start+9))
	byKey([]notify.Dispatch{one(later)}, key(items[3], false), key(items[2], false), key(later, false))
}

// A replay decides a user's deferrals itself, leased ones too, but for those that
// are decided.
func testLoadOfDeferrals(t *testing.T, s Store) {
	third, first := decide(t, s, "a", 0, notify.Later, start+3), decide(t, s, "a", 1, notify.Later, start+1)
	second := decide(t, s, "a", 2, notify.Later, start+2)
	decide(t, s, "b", 0, notify.Later, start)
	claim(t, s, start+2*minute)
	equal(t, "deferrals", dueIDs(standing(t, s, "a").Deferred), idsOf(first, second, third))
	must(t, commit(s, change("a", 3, Decide(second.Event, 4, 1, notify.Now, start+2*minute))))
	equal(t, "deferrals", dueIDs(standing(t, s, "a").Deferred), idsOf(first, third))
	if next := nextDue(t, s); next != start+3*minute {
		t.Errorf("the next is due at %d", next)
	}
}
